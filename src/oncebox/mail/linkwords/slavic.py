"""Words of the Slavic and Baltic languages."""

# ruff: noqa: E501, RUF001 - words of other alphabets, a few to a line

from oncebox.mail.linkwords.table import Words

TABLE: dict[str, Words] = {
    "pl": Words(
        do="potwierd|zweryfik|weryfik|aktywuj|aktywow|aktywac|resetuj|zresetuj|reset|odblokuj|"
        "odzysk|przywroc|zmien haslo|zmiana hasla|zmienic haslo|nowe haslo|ustaw haslo|"
        "ustaw nowe|utworz haslo|utworz nowe|ustawic haslo|ustawic nowe|sprawdz adres",
        soft="zaloguj|logowani|dolacz|przyjmij|akceptuj|zaakceptuj|zaproszeni|kontynuuj|dalej|"
        "zarejestr|dokoncz|usun|zapisz|zatwierd|autoryz|rozpocznij|subskrybuj",
        never="wypisz|rezygn|anuluj subs|odsubskr|preferencj|ustawieni|prywatnos|regulamin|warunki|"
        "pomoc|wsparcie|kontakt|!w przegladarce|wersja web|czytaj|wiecej|dowiedz|pobierz|"
        "udostepn|obserwuj|ankiet|ocen|polityk|cookie|zarzadzaj|o nas|nowy link|nowy kod|"
        "ponownie|zasady",
        against="nie ty|nie byles|nie prosil|nie wysyla|nie skladal|nie poznaj|nie rozpozn|zglos|"
        "odrzuc|odmow|cofnij|anuluj|zablokuj|zabezpiecz|podejrzan|to nie ja|nie zaklada|"
        "jesli to nie",
        ignore="ignoruj|zignoruj|nie musisz",
        business="zamowieni|faktur|rezerwacj|wizyt|platnos|zakup|dostaw|przesylk|paczk|koszyk|ofert|"
        "rabat|wydarzeni|bilet|zobacz|otworz|odpowiedz|wiadomos|komentarz|dokument|aktywnos",
    ),
    "cs": Words(
        do="potvrd|potvrz|overit|overte|overen|overuj|overov|aktivov|aktivuj|obnov|resetov|"
        "odemkn|odblok|zmenit heslo|zmena hesla|zmente heslo|zmenit moje heslo|nove heslo|"
        "nastavit heslo|nastavit nove|nastavte|vytvorit heslo|vytvorit nove|zvolit",
        soft="prihlas|pripoj|prijmout|prijmete|pozvank|pozvani|pokracov|registr|dokonc|smazat|"
        "odstranit|souhlas|schval|odebirat|vstoup",
        never="odhlas|odber|predvolb|nastaveni|soukrom|podmink|napoved|pomoc|podpor|kontakt|"
        "!v prohlizec|webova verze|cist|vice informac|stahn|sdil|sleduj|pravidl|cookie|"
        "spravovat|o nas|novy odkaz|novy kod|znovu|zasady",
        against="?nebyl|?nepozadal|?nezadal|jste to ne|neznate|nepoznav|nahlas|odmitn|zamitn|zrus|"
        "odvolat|zablok|zabezpec|podezrel|to nejsem|?neregistr",
        ignore="ignoruj|nevenujte pozornost|nemusite",
        business="objednav|faktur|rezervac|platb|nakup|doruc|zasilk|balik|kosik|nabidk|slev|udalost|"
        "vstupenk|zobrazit|otevrit|odpoved|komentar|zprav",
    ),
    "sk": Words(
        do="potvrd|overit|overte|overen|overov|aktivov|aktivuj|obnov|resetov|odomkn|odblok|"
        "zmenit heslo|zmena hesla|zmente heslo|nove heslo|nastavit heslo|nastavte|"
        "vytvorit heslo|vytvorte",
        soft="prihlas|pripoj|prijat|prijmite|pozvank|pozvani|pokracov|registr|dokonc|vymaz|"
        "odstran|suhlas|schval|odoberat",
        never="odhlas|odber|predvol|nastaveni|sukrom|podmienk|pomoc|podpor|kontakt|!v prehliadac|"
        "webova verzia|citat|viac informac|stiahn|zdiel|sleduj|pravidl|cookie|spravovat|"
        "o nas|novy odkaz|novy kod|znova|zasady",
        against="?neboli|?nepoziadal|?neziadal|to nie|nepozna|nahlas|odmiet|zamiet|zrus|odvolat|zablok|"
        "zabezpec|podozriv|?neregistr",
        ignore="ignoruj",
        business="objednav|faktur|rezervac|platb|nakup|doruc|zasielk|balik|kosik|ponuk|zlav|vstupenk",
    ),
    "sl": Words(
        do="potrdi|preveri|preverjanje|aktivir|ponastav|odklen|obnov|spremeni geslo|spremenite geslo|"
        "novo geslo|nastavi geslo|zamenjaj geslo|zamenjava gesla",
        soft="prijav|pridruz|sprejm|povabil|nadaljuj|registr|dokoncaj|izbris|narocite",
        never="odjav|nastavitve|zasebnost|pogoj|pomoc|podpor|stik|!v brskalnik|preberi|prenesi",
        against="niste vi|niste bili|niste zaht|?nisi|zavrn|preklic|prijavite zlor|blokir",
        ignore="prezri",
        business="narocil|racun|rezervac|placil|dostav",
    ),
    "hr": Words(
        do="potvrdi|potvrda|provjer|verificir|aktivir|resetir|poniști|ponovno postav|otkljuca|"
        "obnov|promjeni|promijeni|promjena lozinke|nova lozink|novu lozink|postavi lozink|"
        "postavite lozink|povrat|vrati lozink|vrati zaporku|promjena zaporke",
        soft="prijav|pridruzi|prihvat|poziv|nastavi|registr|dovrsi|obrisi|izbrisi|pretplati se|"
        "odobri",
        never="odjav|otkazi pretplat|postavk|privatnost|uvjet|uslov|pomoc|podrska|kontakt|"
        "!u pregledniku|procitaj|saznaj|preuzm|podijeli|pravila|kolacic|upravlj",
        against="niste vi|niste bili|niste zatraz|?nisi|niste traz|prijavite zlo|odbij|opozov|otkaz|blokiraj|"
        "sumnjiv",
        ignore="ignorir|zanemar",
        business="narudzb|racun|rezervacij|placanj|dostav|posiljk|kosaric|ponud|popust",
    ),
    "sr": Words(
        do="потврд|провер|верифик|активир|ресет|откључ|обнов|промени лозинк|промена лозинке|"
        "нова лозинк|нову лозинк|постави лозинк|proveri|promeni lozink|promena lozinke",
        soft="пријав|придружи|прихват|позив|настави|регистр|заврши|обриши",
        never="одјав|подешавањ|приватност|услов|помоћ|подршк|контакт|откажи претплат|политик",
        against="нисте ви|нисте били|нисте затраж|одбиј|опозов|откаж|пријавите зло|блокир",
        ignore="игнориш|занемари",
        business="поруџбин|рачун|резервациј|плаћањ|достав",
    ),
    "mk": Words(
        do="потврд|провер|активир|ресетир|отклуч|промени ја лозинк|промени лозинк|нова лозинк|"
        "смени лозинк",
        soft="најав|придруж|прифат|покан|продолж|регистр|избриш",
        never="одјав|поставк|приватност|услов|помош|контакт",
        against="не сте вие|не побарав|одбиј|откаж",
        ignore="игнорир",
    ),
    "bg": Words(
        do="потвърд|провер|верифиц|активир|нулир|възстанов|отключ|смяна на парол|смени парол|"
        "сменете парол|промен|нова парол|задайте парол|създай парол|създайте парол",
        soft="влез|вход|вписв|присъедин|приемане|приеми|приемете|поканат|покана|продължи|регистр|"
        "завърш|изтрий|абонирай|одобри",
        never="отпис|отказ от абон|отмяна на абон|предпочитан|настройк|поверител|услови|помощ|"
        "поддръжк|контакт|!в браузър|прочет|научете|изтегл|сподел|политик|бисквитк|"
        "нова връзка|нов код",
        against="не сте вие|не сте били|не сте поиск|не сте заяв|не сте иск|отхвърл|отзов|отказв|"
        "откаж|отмен|блокир|подозрит|сигнализ|докладв",
        ignore="игнорир|пренебрег",
        business="поръчк|фактур|резервац|плащан|доставк|пратк|оферт|отстъпк",
    ),
    "ru": Words(
        do="подтверд|подтвержд|верифиц|активир|активац|сброс|восстанов|разблок|провер|"
        "смена парол|сменить парол|смените парол|изменить парол|измените парол|изменение парол|новый парол|"
        "нового парол|задать парол|задайте парол|установить парол|создать парол|"
        "создайте парол|придумайте парол|аутентиф",
        soft="войти|войдите|вход|авториз|присоедин|принять|примите|приглаш|продолж|регистр|заверш|"
        "удал|подписаться|одобр|разреш|начать|вступить|да, ",
        never="отпис|отказаться от рассыл|настройк|предпочт|конфиденц|приватн|услови|соглашен|"
        "помощ|справк|поддержк|контакт|связаться|!в браузер|веб-верси|читать|подробнее|узнать|"
        "скача|поделит|опрос|отзыв|оцен|политик|cookie|управл|о нас|новую ссылк|новый код|"
        "повторно|отправить снова|правил",
        against="не вы |не вы,|не вы?|не вами|не запрашив|не отправлял|не регистрир|не делали|не я|не узна|"
        "сообщить о|пожалова|отклон|отказ|отозв|отмен|заблок|защит|подозрит|не соверш|"
        "кто-то друг",
        ignore="игнорир|проигнор|не требуется|ничего не",
        business="заказ|счет|счёт|брон|оплат|платеж|покупк|доставк|посылк|корзин|скидк|акци|"
        "предложен|мероприят|билет|календар|посмотр|открыть|ответ|сообщени|комментар|"
        "документ|файл|активност",
    ),
    "uk": Words(
        do="підтверд|верифік|перевір|активу|активац|скин|віднов|розблок|зміна парол|"
        "змінити парол|змініть парол|новий пароль|нового парол|встановити парол|"
        "створити пароль|створити новий|створіть|задати пароль",
        soft="увійти|увійдіть|вхід|авториз|приєдн|прийняти|прийміть|запрош|продовж|реєстр|"
        "зареєстр|заверш|видал|підписатися|схвал|дозвол|почати|так, ",
        never="відпис|скасувати підпис|налаштуван|уподобан|конфіденц|приватн|умови|довідк|допомог|"
        "підтримк|контакт|!у браузері|!в браузері|веб-верс|читати|докладніше|дізнат|завантаж|"
        "поділит|опитув|відгук|політик|керув|про нас|нове посилання|новий код|повторно|правил",
        against="не ви |не ви,|не ви?|не вами|не надсила|не запит|не робили|не реєстр|не я|не впізна|повідомити про|"
        "поскарж|відхил|відмов|відклик|скасув|заблок|захист|підозр|хтось інш",
        ignore="ігнор|проігнор",
        business="замовлен|рахун|брон|оплат|платіж|покупк|доставк|посилк|кошик|знижк|подія|квит|"
        "перегля|відкрити|відповіс|повідомлення|коментар|документ|файл",
    ),
    "be": Words(
        do="пацверд|праверц|актывав|актывац|скін|аднав|разблак|змяніць парол|новы парол|"
        "змена парол|стварыць парол",
        soft="увай|уваход|далуч|прыня|запрош|працяг|рэгістр|заверш|выдал",
        never="адпіс|налад|прыватн|канфід|умов|дапамог|падтрымк|кантакт",
        against="не вы|адхіл|адкл|скас|заблак",
        ignore="ігнар",
    ),
    "lv": Words(
        do="apstiprin|parbaud|verific|aktiviz|atiestat|atblok|atjauno|mainit parol|"
        "nomainit parol|jauna parol|jaunu parol|iestatit parol|izveidot parol|atgut",
        soft="pieteik|pieslegt|ielogo|pievienot|pienem|uzaicin|ielugum|turpin|registr|pabei|dzest|"
        "abonet",
        never="atrakst|atteikt|abonesan|iestatijum|preferenc|privatum|noteikum|palidz|atbalst|"
        "kontakt|sazinat|!parlukprogramm|uzzin|lasit|lejupiel",
        against="?nebijat|?neesat|?nepieprasij|noraid|atsauk|atcel|zinot|bloket",
        ignore="ignor",
        business="pasutijum|rekin|rezervac|maksajum|piegad",
    ),
    "lt": Words(
        do="patvirtin|patikrin|atstaty|aktyvav|aktyvin|atkur|nustatyti is naujo|atblok|atrakin|"
        "pakeisti slaptazod|keisti slaptazod|naujas slaptazod|nauja slaptazod|"
        "nustatyti slaptazod|sukurti slaptazod|nustatykite",
        soft="prisijung|jungtis|priimti|pakvietim|kvietim|registr|uzbaig|istrin|prenumeruo",
        never="atsisak|prenumerata|nustatym|privatum|salyg|taisykl|pagalb|kontakt|susisiek|!narsykl|"
        "skaity|suzinok|atsisius",
        against="ne jus|?neprase|?nepateik|atmes|atsauk|pranes|blokuo",
        ignore="ignoruo",
        business="uzsakym|saskait|rezervac|mokejim|pristat",
    ),
}
