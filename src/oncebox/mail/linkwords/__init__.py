"""Words of links: data, one file for each group of languages."""

from oncebox.mail.linkwords import asia, europe, germanic, middle_east, romance, slavic
from oncebox.mail.linkwords.table import Words

#: by language
TABLE: dict[str, Words] = {
    **germanic.TABLE,
    **romance.TABLE,
    **slavic.TABLE,
    **europe.TABLE,
    **middle_east.TABLE,
    **asia.TABLE,
}
