"""Words of the other languages of Europe, and of the Turkic and Caucasian ones."""

# ruff: noqa: E501, RUF001 - words of other alphabets, a few to a line

from oncebox.mail.linkwords.table import Words

TABLE: dict[str, Words] = {
    "fi": Words(
        do="vahvist|varmist|varmenna|aktivoi|nollaa|palaut|avaa lukitus|poista lukitus|"
        "vaihda salasan|uusi salasan|aseta salasan|luo salasan|uuden salasan|lukituksen|"
        "muuta salasan|tarkista",
        soft="kirjaudu|liity|hyvaksy|kutsu|jatka|rekisteroi|viimeistele|poista tili|tilaa|aloita",
        never="peruuta tilaus|peru tilaus|lopeta tilaus|asetukset|tietosuoja|ehdot|kayttoehdot|"
        "ohje|apua|tuki|yhteys|!selaimessa|lue lisaa|lisatieto|lataa|seuraa|evaste|hallinnoi|"
        "tietoa meista|uusi linkki|saannot",
        against="et tehnyt|et pyytan|ette tehneet|ette pyyt|et ole pyyt|et ole itse|et ole luonut|et ole tehn|et ole rekister|et pyyta|et ollut|et itse|et sina|ilmoita|hylkaa|kieltay|peruuta|peru |kumoa|"
        "estaa|esta tili|!suojaa tili|epailytt|et tunnista",
        ignore="jata huomio",
        business="tilau|lasku|varau|maksu|toimitu|paketti|ostoskori|tarjou|alennu",
    ),
    "et": Words(
        do="kinnita|kontrolli|aktiveeri|lahtesta|taasta|ava lukk|muuda parool|uus parool|"
        "vaheta parool|loo parool|maara parool|uue parool|tuvasta",
        soft="logi sisse|sisene|liitu|nousta|vota vastu|kutse|jatka|registreeri|lopeta|kustuta|"
        "telli",
        never="loobu|tuhista tellimus|seaded|eelistus|privaatsus|tingimus|abi|tugi|kontakt|"
        "vota uhendust|loe lahemalt|laadi",
        against="ei olnud|ei ole seda|ei ole taotl|ei taotle|ei soovi|teata|keeldu|tuhista|tagasi vot|blokeeri",
        ignore="ignoreeri|eira",
        business="tellimus|arve|broneer|makse|tarne|pakk",
    ),
    "hu": Words(
        do="megerosit|azonosit|inicializ|erositse meg|erositsd meg|erosits|ellenoriz|hitelesit|igazol|aktival|"
        "visszaallit|visszaallitas|zarolas felold|feloldas|feloldo|jelszo valtoz|"
        "jelszo modosit|jelszavam|uj jelszo|jelszo beallit|jelszo letrehoz|jelszo megvalt|"
        "jelszocsere|allitsa vissza|allitsd vissza|helyreallit|jelszo megadas",
        soft="bejelentkez|belep|csatlakoz|elfogad|meghiv|folytat|tovabb|regisztr|befejez|torles|"
        "torl|feliratkoz|jovahagy|engedelyez|kezd",
        never="leiratkoz|beallitas|preferenci|adatvedel|feltetel|sugo|segitseg|tamogatas|kapcsolat|"
        "ugyfelszolg|!bongeszob|online valtozat|tovabbi info|bovebb|letolt|megoszt|kovess|"
        "cookie|suti|kezeles|rolunk|uj link|uj kod|ujrakuld|szabaly",
        against="nem on |nem on,|nem te|nem keres|nem kert|nem kezdem|jelentse|jelentsd|jelentes|elutasit|"
        "visszavon|megsem|torolje a ker|letilt|gyanus|nem ismer|visszautas",
        ignore="figyelmen kivul|hagyja figyelm|hagyd figyelm",
        business="rendeles|szamla|foglalas|idopont|fizet|vasarl|szallit|csomag|kosar|ajanlat|"
        "kedvezmeny|esemeny|jegy",
    ),
    "el": Words(
        do="επιβεβαι|επαληθ|ενεργοποι|επαναφορ|επαναφερ|ξεκλειδ|ανακτ|αλλαγη κωδικ|αλλαξτε|"
        "αλλαξε|αλλαγη του κωδικ|νεος κωδικ|νεο κωδικ|νεου κωδικ|ορισμος κωδικ|ορισμος νεου|"
        "οριστε|δημιουργια κωδικ|δημιουργια νεου|πιστοποι|εξακριβ",
        soft="συνδεση|συνδεθ|εισοδος|συμμετ|γινετε μελος|αποδοχ|αποδεχ|προσκλησ|συνεχ|εγγραφ|"
        "ολοκληρ|διαγραφ|εγκριν|ξεκιν",
        never="καταργηση εγγραφ|απεγγραφ|διαγραφη απο|προτιμ|ρυθμισ|απορρητ|ορους|οροι|ορων|βοηθ|"
        "υποστηρ|επικοινων|!στο προγραμμα περιηγ|διαβαστε|μαθετε|περισσοτερα|κατεβ|ληψη|"
        "κοινοποι|ακολουθ|πολιτικ|διαχειρ|σχετικα με|νεο συνδεσμ|νεο κωδικ επαλ|κανον",
        against="δεν ησουν|δεν το κανατε|δεν το εκαν|δεν εκαν|δεν ησασταν|δεν εισαι|δεν ζητησ|δεν κανατε|δεν το ζητ|δεν αναγν|αναφορα|αναφερ|απορριψ|"
        "απορριπ|αρνηθ|ανακλησ|ακυρω|αποκλει|υποπτ|δεν εγιν|δεν πραγματοπ",
        ignore="αγνοη",
        business="παραγγελ|τιμολογ|κρατησ|ραντεβου|πληρωμ|αγορα|αποστολ|παραδοσ|δεμα|καλαθι|προσφορ|"
        "εκπτωσ",
    ),
    "tr": Words(
        do="dogrula|onayla|etkinlestir|aktif|aktive|sifirla|yenile|yeniden ayarla|kilidini ac|"
        "kilidi ac|kurtar|sifremi degistir|sifre degistir|sifreyi degistir|sifreni|"
        "parola degistir|parolayi|parolami|yeni sifre|yeni parola|sifre belirle|"
        "sifre olustur|parola belirle|parola olustur|geri yukle|tasdik",
        soft="giris yap|oturum ac|katil|kabul|davet|devam|kayit|kaydol|tamamla|hesabi sil|"
        "hesabimi sil|abone ol|izin ver|basla|uye ol",
        never="abonelikten|aboneligi iptal|abonelik iptal|listeden cik|tercih|ayarlar|gizlilik|"
        "kosullar|sartlar|yardim|destek|iletisim|bize ulas|!tarayicida|cevrimici gor|"
        "daha fazla|devamini oku|indir |indirin|paylas|takip et|anket|politika|cerez|yonet|hakkimizda|"
        "yeni baglanti|yeni kod|tekrar gonder|kurallar",
        against="siz degil|sen degil|ben degil|?istemedi|talep etmedi|?yapmadi|tanimi|bildir|sikayet|"
        "reddet|iptal|geri al|engelle|supheli|!guvenceye|?degilseniz|?bulunmadi",
        ignore="yok say|gormezden|dikkate alma|islem yapmaniz",
        business="siparis|fatura|rezervasyon|randevu|odeme|satin al|teslimat|kargo|paket|sepet|"
        "indirim|kampanya|etkinlik|bilet|goruntule|yanit|mesaj|yorum|belge|dosya",
    ),
    "az": Words(
        do="tesdiq|tasdiq|dogrula|aktivles|sifirla|berpa|kilidi ac|sifreni deyis|yeni sifre|"
        "parolu deyis|tesdiqle",
        soft="daxil ol|giris|qosul|qebul|devet|davam|qeydiyyat|tamamla",
        never="abunelikden|abuneliyi|parametr|tenzimle|mexfilik|sertler|komek|elaqe|destek",
        against="siz deyil|red et|imtina|legv|geri cagir|sikayet",
        ignore="nezere alma",
    ),
    "kk": Words(
        do="раста|тексер|белсендір|қалпына|құпиясөзді|жаңа құпия|бұғаттан|қайта орнат",
        soft="кіру|қосыл|қабылда|шақыру|жалғастыр|тіркел|аяқта|жою",
        never="жазылудан|баптау|құпиялылық|шарттар|көмек|қолдау|байланыс",
        against="сіз емес|бас тарт|болдырма|хабарла",
        ignore="елеме",
    ),
    "uz": Words(
        do="tasdiq|tekshir|faollash|tikla|qayta ornat|parolni ozgart|parolni tikla|yangi parol|"
        "blokdan",
        soft="kirish|kiring|qoshil|qabul|taklif|davom|royxat|yakunla|ochirish",
        never="obunani bekor|obunadan|sozlama|maxfiylik|shartlar|yordam|aloqa|qollab",
        against="siz emas|rad et|bekor|xabar ber|soramagan|bloklash",
        ignore="etibor berma",
    ),
    "ka": Words(
        do="დაადასტურ|დადასტურ|გადაამოწმ|ვერიფიკ|გააქტიურ|აღადგინ|აღდგენ|პაროლის შეცვლ|"
        "ახალი პაროლ|განბლოკ",
        soft="შესვლა|შედი|შეუერთდ|მიიღ|მოწვევ|გაგრძელ|რეგისტრ|დაასრულ|წაშლ",
        never="გამოწერის გაუქმ|პარამეტრ|კონფიდენც|პირობებ|დახმარ|კონტაქტ|მხარდაჭ",
        against="თქვენ არ|უარყოფ|გაუქმ|დაბლოკ",
        ignore="იგნორ",
    ),
    "hy": Words(
        do="հաստատ|ստուգ|ակտիվաց|վերականգն|վերակայ|գաղտնաբառը փոխ|նոր գաղտնաբառ|ապաարգելափակ",
        soft="մուտք|միանալ|ընդունել|հրավեր|շարունակ|գրանց|ավարտ|ջնջել",
        never="ապաբաժանորդագր|չեղարկել բաժ|կարգավոր|գաղտնիութ|պայման|օգնութ|աջակց|կապ",
        against="դուք չեք|մերժ|չեղարկ|արգելափ|հայտնել",
        ignore="անտես",
    ),
    "sq": Words(
        do="konfirmo|verifiko|aktivizo|rivendos|ricakto|zhblloko|rikthe|ndrysho fjale|"
        "ndryshoni fjale|fjalekalim te ri|caktoni fjale|vertet|ripohoni|ripohim",
        soft="hyni|hyr|kycu|kyc|bashkohu|bashkohuni|pranoje|prano|ftes|vazhdo|regjistro|perfundo|"
        "fshi",
        never="cabono|cregjistro|parapelqim|rregullim|privatesi|kushte|ndihme|kontakt|asistenc|"
        "rregulla",
        against="nuk jeni ju|nuk e keni|nuk keni kerk|nuk keni bere|nuk ishit|hidhni poshte|refuzo|anulo|raporto|shfuqizo|bllokoje",
        ignore="shpernfill|shperfill",
    ),
    "eu": Words(
        do="egiaztatu|baieztatu|berretsi|aktibatu|berrezarri|desblokeatu|berreskuratu|"
        "aldatu pasahitz|pasahitza aldatu|pasahitz berri|ezarri pasahitz",
        soft="saioa hasi|hasi saioa|sartu|bat egin|elkartu|onartu|gonbidap|jarraitu|erregistra|"
        "amaitu|ezabatu",
        never="harpidetza kendu|baja eman|hobespen|lehentasun|ezarpen|pribatutasun|baldintz|"
        "laguntza|kontaktu|arauak",
        against="zu ez|ez baduzu|ez bazara|baztertu|ukatu|ezeztatu|salatu|blokeatu",
        ignore="ezikusi",
    ),
    "cy": Words(
        do="cadarnh|gwirio|gwiriwch|dilysu|ailosod|datgloi|adfer|newid cyfrinair|newidiwch|"
        "cyfrinair newydd|actifadu",
        soft="mewngofnod|ymuno|ymunwch|derbyn|gwahoddiad|parhau|cofrestr|gorffen|dileu",
        never="dad-danysg|dad-dan|dewisiadau|gosodiadau|preifatrwydd|telerau|cymorth|cysyllt|"
        "rheolau",
        against="nid chi|heb ofyn|gwrthod|canslo|adrodd|dirymu",
        ignore="anwybydd",
    ),
    "ga": Words(
        do="deimhnigh|dearbhaigh|fioraigh|gniomhachtaigh|athshocraigh|athraigh pasfhocal|"
        "pasfhocal nua|dighlasail",
        soft="logail isteach|sinigh isteach|glac|cuireadh|lean ar|claraigh|scrios|tar isteach",
        never="dioliostail|sainroghanna|socruithe|priobhaid|tearmai|cabhair|teagmhail",
        against="nior iarr|diultaigh|cealaigh|tuairiscigh",
        ignore="dean neamhaird",
    ),
    "gd": Words(
        do="dearbh|ath-shuidhich|atharraich am facal|atharraich facal|facal-faire ur|"
        "thoir a' ghlas|gnath",
        soft="clarach a-steach|clàraich a-steach|thig a-steach|gabh ri|cuireadh|lean air",
        never="fo-sgriob|roghainnean|priobhaid|teirmichean|cuideachadh|riaghailt",
        against="cha tu|diult|sguir dheth",
        ignore="leig seachad",
    ),
    "mt": Words(
        do="ikkonferma|ivverifika|attiva|irrisettja|biddel il-password|password gdida",
        soft="idhol|inghaqad|accetta|stedina|kompli|irregistra",
        never="neqqas|privatezza|termini|ghajnuna",
        against="ma kontx|irrifjuta|ikkancella",
        ignore="injora",
    ),
    "br": Words(
        do="kadarnaat|gwiriekaat|adderaouekaat|cheñch ar ger",
        soft="kevreañ|enskrivañ|asantiñ",
    ),
}
