"""Tables of words: what the texts of links and the sentences around them say."""

import msgspec


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """Beginnings of words and phrases of one language, ``|`` between them, without accents."""

    #: what is done with a link that was made for one person
    do: str = ""
    #: what is done with such links, and with others
    soft: str = ""
    #: what other links are for; those marked by ``!`` only where they are the text of a link
    never: str = ""
    #: what undoes, reports or refuses; phrases count in the sentence before a link too, unless
    #: marked by ``!``, and single words marked by ``?``
    against: str = ""
    #: that a mail may be left alone
    ignore: str = ""
    #: what else people confirm and accept
    business: str = ""
