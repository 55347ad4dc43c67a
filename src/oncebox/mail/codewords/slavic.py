"""The Slavic languages: Polish, Czech, Russian, Bulgarian and their neighbours."""

from oncebox.mail.codewords.words import Words

TABLE = {
    "pl": Words(
        code=("te cyfry, następujące cyfry, kod, jednorazow, =pin, hasło sms, numer weryfikacyjny"),
        purpose=(
            "weryfik, potwierdz, logowan, zaloguj, bezpieczeń, rejestr, zresetow, reset, "
            "odzysk, aktyw, uwierzyteln, tożsamo, konto, konta, dostęp, dwuetap, dwuskład, "
            "autoryz"
        ),
        ask=("wprowadź, wpisz, użyj, podaj, poniż, następując, oto, skopiuj, przepisz, powyż"),
        limit=(
            "ważn, wygaś, wygasa, minut, godzin, nie udostępn, nikomu, zignoruj, nie prosił, "
            "nie podawaj, nigdy"
        ),
        other=(
            "zamówien, faktur, paragon, bilet, przesył, paczk, dostaw, śledz, telefon, =tel, "
            "klient, referenc, kwot, suma, razem, cena, kod pocztowy, kodu pocztow, błąd, "
            "błęd, =nip, =regon, =krs, =iban, numer konta, umow, seryjn, wersj, artyk, "
            "produkt, ilość, stron, kończąc, kart, ulic, =ul, pokój, transakc, płatno, zgłosz, "
            "sprawa, saldo, punkt"
        ),
        gift="rabat, promoc, kupon, zniżk, voucher, bon, prezent, ofert, oszczęd",
        standing="hasło, hasła, haseł, nazwa użytkownika, kody zapasowe, kody odzyskiwania",
        event="spotkan, rezerwac, lot, podróż, hotel, przyjazd, wyjazd, wydarzen, wizyt",
        common=(
            "i, w, na, z, do, nie, się, to, jest, twój, twoje, twojego, dla, że, jeśli, od, "
            "po, za, ten, ta, tej, dziękujemy, witaj, cześć, został, lub, tę, aby, pan, pani, "
            "przez"
        ),
    ),
    "cs": Words(
        code="kód, kodu, jednoráz, =pin, ověřovací číslo, kódem",
        purpose=(
            "ověř, potvrz, přihláš, přihlas, bezpečnost, registr, obnov, reset, aktiv, "
            "autentiz, totožn, účet, účtu, přístup, dvoufáz, dvoufakt, autoriz"
        ),
        ask=(
            "zadejte, zadej, použij, použijte, vložte, níže, následující, uveden, zde je, "
            "opište, zkopír"
        ),
        limit="platn, platí, vyprš, minut, hodin, nesdíl, nikomu, ignor, nepožád, nežád",
        other=(
            "objedn, číslo požadav, faktur, účtenk, jízdenk, vstupenk, zásilk, balík, "
            "doruč, sledov, telefon, "
            "=tel, zákazn, referenc, částk, celkem, cena, =psč, chyb, =ičo, =dič, =iban, "
            "číslo účtu, smlouv, sériov, verz, zbož, produkt, množstv, stran, končící, kart, "
            "ulic, pokoj, transakc, platb, případ, zůstat, bod, var. symbol, variabilní"
        ),
        gift="slev, promo, kupón, kupon, poukaz, dárk, nabídk, ušetř",
        standing="hesl, uživatelské jméno, záložní kódy, kódy pro obnovení",
        event="schůz, rezervac, let, cest, hotel, příjezd, odjezd, událost, jednání",
        common=(
            "a, v, na, se, je, do, že, to, s, z, váš, vaše, vaši, vašeho, vám, vás, pro, "
            "pokud, jste, ne, byl, bylo, tento, nebo, ahoj, děkujeme, prosím, jsme, dobrý, den"
        ),
    ),
    "sk": Words(
        code="kód, kodu, jednoraz, =pin, overovacie číslo, kódom",
        purpose=(
            "over, potvrd, prihlás, bezpečnost, registr, obnov, reset, aktiv, autent, totožn, "
            "účet, účtu, prístup, dvojfakt, dvojstup"
        ),
        ask="zadajte, zadaj, použi, vložte, nižšie, nasledujúc, uveden, tu je",
        limit="platn, platí, vyprš, minút, hodín, nezdieľ, nikomu, ignor, nepožiad",
        other=(
            "objedn, faktúr, lístok, zásielk, balík, doruč, sledov, telefón, =tel, zákazn, "
            "referenc, sum, celkom, cena, =psč, chyb, =ičo, =iban, číslo účtu, zmluv, sériov, "
            "verz, tovar, množstv, stran, kart, ulic, platb, transakc"
        ),
        gift="zľav, kupón, poukaz, darč, ponuk",
        standing="hesl, používateľské meno, záložné kódy",
        event="stretnut, rezervác, let, cest, hotel, udalosť, schôdz",
        common=(
            "a, v, na, sa, je, do, že, to, s, z, váš, vaše, vašu, vám, pre, ak, ste, nie, bol, "
            "tento, alebo, ahoj, ďakujeme, prosím, tejto"
        ),
    ),
    "sl": Words(
        code="kod, enkratn, =pin, potrditvena števil, koda",
        purpose=(
            "potrdi, preveri, prijav, varnost, registr, ponastav, obnov, aktiv, overjan, "
            "identitet, račun, dostop, dvostop"
        ),
        ask="vnesi, vpiši, uporabi, naslednj, spodaj, tukaj",
        limit="velja, poteče, minut, ur, ne deli, nikomur, prezr, niste zahtev",
        other=(
            "naročil, račun št, vstopnic, pošiljk, paket, dostav, sledenj, telefon, strank, "
            "referenc, znesek, skupaj, cena, poštna, napak, davčn, kartic, ulic, plačil"
        ),
        gift="popust, kupon, bon, darilo, ponudb",
        standing="gesl, uporabniško ime",
        event="sestan, rezervac, let, potovanj, hotel, dogod",
        common=(
            "in, v, na, se, je, za, da, ne, s, z, vaš, vaša, vaše, vam, če, ste, to, ta, ali, "
            "pozdravljeni, hvala, smo, po"
        ),
    ),
    "hr": Words(
        code="kod, jednokrat, =pin, šifra za, kôd, jednokratna lozinka",
        purpose=(
            "potvr, provjer, verifik, prijav, sigurnos, registr, resetir, poništ, oporav, "
            "aktiv, autent, identitet, račun, pristup, dvofaktor"
        ),
        ask=("unesi, upiši, koristi, upotrijebi, sljedeć, sledeć, ispod, ovdje, ovde, evo, niže"),
        limit=(
            "vrijedi, važi, istječe, ističe, minut, sat, ne dijel, ne deli, nikome, ignor, "
            "zanemar, niste zatraž"
        ),
        other=(
            "narudž, narudb, račun br, faktur, karta br, pošiljk, paket, dostav, praćenj, "
            "telefon, =tel, kupac, referenc, iznos, ukupno, cijena, cena, poštanski, greška, "
            "=oib, =iban, =pib, kartic, ulica, plaćanj, transakc"
        ),
        gift="popust, kupon, bon, poklon, ponud",
        standing="lozink, zapork, korisničko ime",
        event="sastan, rezervac, let, putovanj, hotel, događ",
        common=(
            "i, u, na, se, je, za, da, ne, s, sa, vaš, vaša, vaše, vam, ako, ste, to, ovaj, "
            "ili, pozdrav, hvala, smo, od, bi, nije"
        ),
    ),
    "sr": Words(
        code="код, kod, једнократн, šifra, шифра за, пин, ~kôd",
        purpose=(
            "потврд, провер, верифик, пријав, безбедн, регистр, ресет, опорав, актив, "
            "идентитет, налог, приступ, nalog, bezbedn, proveri"
        ),
        ask="унес, упиш, корист, следећ, испод, овде, ево",
        limit="важи, истиче, минут, сат, не дели, никоме, игнори, нисте",
        other=(
            "поруџбин, рачун, фактур, пошиљк, пакет, достав, праћењ, телефон, износ, укупно, "
            "цена, поштански, грешк, картиц, улица, porudžb"
        ),
        gift="попуст, купон, поклон, понуд",
        standing="лозинк, корисничко име",
        event="састан, резервац, лет, путовањ, хотел",
        common=(
            "и, у, на, се, је, за, да, не, са, ваш, ваша, ваше, вам, ако, сте, то, овај, или, "
            "поздрав, хвала, смо, од"
        ),
    ),
    "bg": Words(
        code="код, еднократ, =пин, парола за еднократ",
        purpose=(
            "потвър, провер, верифик, вход, влез, сигурност, регистр, нулир, възстанов, актив, "
            "удостовер, самоличност, акаунт, профил, достъп, двуфактор"
        ),
        ask="въвед, използв, следн, по-долу, по долу, ето, тук",
        limit="валид, изтич, минут, час, не споделя, никого, игнорир, не сте заяв, никому",
        other=(
            "поръчк, фактур, билет, пратк, пакет, доставк, просле, телефон, =тел, клиент, "
            "сума, общо, цена, пощенски, грешк, =еик, карт, улица, =ул, плащан, транзакц"
        ),
        gift="отстъпк, купон, ваучер, подарък, промо, оферт",
        standing="парол, потребителско име",
        event="среща, резервац, полет, пътуван, хотел, събити",
        common=(
            "и, в, на, се, е, за, да, не, с, от, ви, вашия, вашият, ако, сте, това, този, или, "
            "здравейте, благодарим, по, до, си"
        ),
    ),
    "mk": Words(
        code="код, еднократ, =пин, шифра за",
        purpose=(
            "потврд, провер, верифик, најав, безбедн, регистр, ресет, поврат, актив, "
            "идентитет, сметк, пристап"
        ),
        ask="внес, корист, следни, подолу, еве, овде",
        limit="важи, истек, минут, час, не спод, никому, игнор",
        other=(
            "нарачк, фактур, пратк, пакет, достав, телефон, износ, вкупно, цена, поштенски, "
            "грешк, картичк, улица"
        ),
        gift="попуст, купон, подарок",
        standing="лозинк, корисничко име",
        common=(
            "и, во, на, се, е, за, да, не, со, од, вашиот, вашата, ако, сте, ова, овој, или, "
            "здраво, благодариме"
        ),
    ),
    "ru": Words(
        code=("эти цифры, следующие цифры, код, одноразов, =пин, пин код, проверочное число, =отп"),
        purpose=(
            "подтвер, провер, вход, входа, войти, авториз, безопасн, регистр, сброс, восстанов, "
            "актив, аутентиф, личност, аккаунт, учётн, доступ, двухфактор, двухэтап, верифик"
        ),
        ask="введите, введи, используй, укажите, следующ, ниже, вот, скопируй, воспользуй",
        limit=(
            "действ, истека, истечёт, минут, час, не сообща, никому, игнорир, не запрашив, "
            "не передавай, не делай, проигнор"
        ),
        other=(
            "заказ, счёт, счет-фактур, чек, билет, посылк, отправлен, доставк, отслежив, трек, "
            "телефон, =тел, звоните, клиент, номер договор, сумм, итого, цена, стоимост, "
            "почтовый индекс, индекс, ошибк, =инн, =кпп, =огрн, договор, серийн, верси, "
            "артикул, товар, количеств, страниц, карт, улица, =ул, =дом, кварт, транзакц, "
            "оплат, обращени, заявк, баланс, балл, штрихкод, =р/с"
        ),
        gift="скидк, промокод, купон, сертификат, подар, акци, бонус, распродаж",
        standing=(
            "парол, имя пользователя, логин:, резервные коды, коды восстановления, резервных кодов"
        ),
        event=(
            "встреч, конференц, бронь, бронир, рейс, поездк, отель, гостиниц, мероприят, вебинар"
        ),
        common=(
            "и, в, на, с, не, что, для, вы, ваш, ваша, ваше, вас, вам, это, этот, если, или, "
            "от, по, за, из, был, к, здравствуйте, спасибо, мы, как, о, у"
        ),
    ),
    "uk": Words(
        code="код, одноразов, =пін, перевірочне число",
        purpose=(
            "підтвер, перевір, вход, вхід, увійти, авториз, безпек, реєстр, скид, віднов, "
            "актив, автентиф, особ, акаунт, обліков, доступ, двофактор, двоетап, верифік"
        ),
        ask="введіть, введи, використ, вкажіть, наступн, нижче, ось, наведен, скопію",
        limit=(
            "дійсн, діє, закінч, хвилин, годин, не повідомл, нікому, ігнор, не запит, не передав"
        ),
        other=(
            "замовлен, рахун, чек, квит, посилк, відправл, доставк, відстеж, телефон, =тел, "
            "клієнт, сум, разом, ціна, вартіст, поштовий індекс, індекс, помилк, договір, "
            "серійн, версі, артикул, товар, кількіст, сторінк, карт, вулиц, =вул, транзакц, "
            "оплат, звернен, баланс, бал, ттн"
        ),
        gift="знижк, промокод, купон, сертифікат, подарун, акці, бонус",
        standing="парол, ім'я користувача, резервні коди, коди відновлення",
        event="зустріч, конференц, бронюв, рейс, поїздк, готель, захід, вебінар",
        common=(
            "і, й, в, у, на, з, не, що, для, ви, ваш, ваша, ваше, вас, вам, це, цей, якщо, "
            "або, від, по, за, до, було, вітаємо, дякуємо, ми, як, про"
        ),
    ),
    "be": Words(
        code="код, аднаразов",
        purpose=(
            "пацвер, пацвярд, увайс, уваход, бяспек, рэгістр, скід, аднаў, актыв, уліков, доступ"
        ),
        ask="увядзіце, выкарыст, наступн, ніжэй, вось",
        limit="дзейн, хвілін, гадзін, нікому, ігнар",
        other=(
            "заказ, замов, рахун, пасылк, дастаўк, тэлефон, сум, цана, індэкс, памылк, карт, "
            "вуліц, аплат"
        ),
        gift="зніжк, купон, падарун",
        standing="парол, імя карыстальніка",
        common=(
            "і, у, ў, на, з, не, што, для, вы, ваш, ваша, вас, вам, гэта, калі, або, ад, па, за, да"
        ),
    ),
}
