"""Finnish, Estonian, Hungarian, Latvian, Lithuanian, Greek, and languages that stand alone."""

from oncebox.mail.codewords.words import Words

TABLE = {
    "fi": Words(
        code="~koodi, ~koodin, kertakäyttö, =pin, tunnusluku, ~kertakoodi",
        purpose=(
            "vahvist, todenn, kirjaudu, kirjautu, turvallis, turva, rekister, palaut, aktivoi, "
            "tunnist, henkilöllis, tili, kaksivaihe, pääsy"
        ),
        ask="syötä, käytä, anna, kirjoita, seuraava, alla, tässä, kopioi, alapuol, oheis",
        limit=(
            "voimassa, vanhenee, vanhentu, minuut, tunti, tunnin, älä jaa, älä kerro, "
            "kenellekään, ohita, et pyytänyt, jättää tämän"
        ),
        other=(
            "tilaus, tilaustunn, tukipyyn, lasku, kuitti, lippu, lähety, paket, toimit, seuranta, "
            "puhelin, =puh, asiakas, viite, summa, yhteensä, hinta, postinumero, virhe, "
            "y-tunnus, y tunnus, tilinumero, sarjanumero, versio, tuote, määrä, sivu, päättyv, "
            "kort, katu, huone, maksu, varaus, =alv"
        ),
        gift="alennus, kuponki, lahjakort, tarjous, etukood, kampanja",
        standing="~salasana, käyttäjätunnus, käyttäjänimi, varakoodit, palautuskoodit",
        event="kokous, varaus, lento, matka, hotelli, tapahtuma, tapaami",
        common=(
            "ja, on, ei, että, se, tämä, tämän, sinun, jos, voit, hei, kiitos, olet, tai, kun, "
            "sähköposti, ole, ovat, meille, teidän, oli"
        ),
    ),
    "et": Words(
        code="~kood, ühekord, =pin",
        purpose=(
            "kinnita, kinnitus, tuvast, logi, sisselog, turva, registr, lähtesta, taasta, "
            "aktiv, autent, konto, juurdepääs"
        ),
        ask="sisesta, kasuta, järgmi, allpool, siin, alljärgnev, kopeeri",
        limit="kehti, aegu, minut, tund, ära jaga, kellegi, eira, ignoreeri, ei taotlenud",
        other=(
            "tellimus, arve, kviitung, pilet, saadet, pakk, tarne, jälgim, telefon, =tel, "
            "klient, viite, summa, kokku, hind, postiindeks, viga, kaart, tänav, makse, "
            "broneering"
        ),
        gift="soodus, allahindl, kupong, kinkekaart, pakkum",
        standing="~parool, ~salasõna, kasutajanimi",
        event="koosolek, broneering, lend, reis, hotell, üritus",
        common=(
            "ja, on, ei, et, see, selle, sinu, teie, kui, tere, aitäh, oled, või, oma, meie, "
            "ning, seda, te"
        ),
    ),
    "hu": Words(
        code=(
            "kód, kod, ~kódja, ~kódod, ~kód, egyszer használat, egyszeri jelszó, =pin, "
            "~szám megerősít"
        ),
        purpose=(
            "ellenőrz, megerősít, hitelesít, bejelentkez, belép, bizton, regisztr, "
            "visszaállít, helyreállít, aktivál, azonosít, fiók, hozzáfér, kétlépcs, kétfaktor, "
            "egyszer"
        ),
        ask=(
            "írja be, írd be, add meg, adja meg, használ, következő, alábbi, lent, itt van, másol"
        ),
        limit=(
            "érvényes, lejár, perc, óra, ne ossza, ne oszd, senki, hagyja figyelmen, "
            "figyelmen kívül, nem kért"
        ),
        other=(
            "rendelés, megrendel, számla, nyugta, jegy, csomag, szállít, küldemény, nyomkövet, "
            "telefon, =tel, ügyfél, hivatkoz, összeg, végösszeg, ár, irányítószám, hiba, "
            "adószám, számlaszám, szerződ, verzió, termék, mennyis, oldal, végződ, kártya, "
            "utca, szoba, fizet, tranzakc, cégjegyzék"
        ),
        gift="kupon, kedvezmény, utalvány, ajándék, ajánlat, promóc",
        standing="~jelszó, ~jelszav, felhasználónév, tartalék kód, biztonsági kódok",
        event="értekezlet, foglalás, repül, utazás, szálloda, esemény, találkozó, megbeszél",
        common=(
            "a, az, és, hogy, nem, egy, ez, ezt, van, ha, az ön, kedves, köszönjük, is, meg, "
            "vagy, ön, volt, lett, fel, el, önnek, üdv"
        ),
    ),
    "lv": Words(
        code="kod, vienreiz, =pin, kods",
        purpose=(
            "apstipr, pārbaud, verific, pieteik, pieslēg, drošīb, reģistr, atiestat, atjaun, "
            "aktiv, autent, identit, kont, piekļuv"
        ),
        ask="ievad, izmanto, lieto, šād, zemāk, turpmāk, lūk",
        limit="derīg, beidz, minū, stund, nedalies, nevien, ignor, neesat piepras",
        other=(
            "pasūtīj, rēķin, čeks, biļet, sūtīj, pak, piegād, izseko, tālrun, klient, summa, "
            "kopā, cena, pasta indeks, kļūd, karte, iela, maksāj, rezervāc"
        ),
        gift="atlaid, kupon, dāvan, piedāvāj",
        standing="parol, lietotājvārds",
        common=(
            "un, ir, ka, uz, no, ar, jūs, jūsu, šo, šis, ja, par, lai, nav, labdien, paldies, "
            "vai, mums, lūdzu"
        ),
    ),
    "lt": Words(
        code="kod, vienkart, =pin, patvirtinimo numer",
        purpose=(
            "patvirt, patikrin, prisijung, saug, registr, atkur, atstat, nustatyti iš naujo, "
            "aktyv, autent, tapat, paskyr, prieig"
        ),
        ask="įvesk, naudok, panaudok, šį, toliau, žemiau, štai, nurody",
        limit="galioj, baigias, minut, valand, nesidalyk, niekam, ignor, neprašėt",
        other=(
            "užsakym, sąskait, kvit, biliet, siunt, pakuot, pristat, telefon, klient, suma, "
            "iš viso, kaina, pašto kod, klaid, kortel, gatv, mokėj, rezerv"
        ),
        gift="nuolaid, kupon, dovan, pasiūlym",
        standing="slaptaž, naudotojo vardas",
        common=(
            "ir, yra, kad, į, iš, su, jūs, jūsų, šis, jei, jeigu, už, ne, nėra, sveiki, ačiū, "
            "ar, mes, prašome, tai, buvo"
        ),
    ),
    "el": Words(
        code="κωδικ, μιας χρήσης, κωδικός επαλήθευσης, =pin, μιας φοράς",
        purpose=(
            "επαλήθ, επιβεβαί, σύνδεσ, ασφάλ, εγγραφ, επαναφορ, ανάκτησ, ενεργοπ, ταυτοπ, "
            "ταυτότητ, λογαριασμ, πρόσβασ, δύο παραγ, δύο βημ"
        ),
        ask=("εισαγάγ, εισάγ, χρησιμοπ, πληκτρολογ, παρακάτω, ακόλουθ, αντιγράψ, ιδού, καταχωρ"),
        limit=(
            "ισχύ, λήγει, λήξη, λεπτ, ώρ, μην κοινοπ, μη μοιρ, μην μοιρ, κανέναν, αγνοή, δεν ζητήσ"
        ),
        other=(
            "παραγγελ, τιμολόγ, απόδειξ, εισιτήρ, αποστολ, δέμα, παράδοσ, παρακολούθ, τηλέφων, "
            "=τηλ, πελάτ, ποσό, σύνολ, τιμή, ταχυδρομ, =τκ, τ.κ., σφάλμα, =αφμ, κάρτα, οδός, "
            "πληρωμ, κράτησ, έκδοση"
        ),
        gift="έκπτωσ, κουπόν, δώρο, δωροεπιτ, προσφορ",
        standing=(
            "κωδικό πρόσβασης, κωδικός πρόσβασης, κωδικού πρόσβασης, κωδικό σας πρόσβασης, "
            "όνομα χρήστη, συνθηματ"
        ),
        event="συνάντησ, σύσκεψ, κράτησ, πτήσ, ταξίδ, ξενοδοχ, εκδήλωσ, ραντεβού",
        common=(
            "και, το, τη, την, της, του, να, σας, για, με, στο, στη, στον, σου, από, αν, εάν, "
            "δεν, είναι, αυτό, γεια, ευχαριστούμε, η, ο, θα, έχει"
        ),
    ),
    "sq": Words(
        code="kod, njëpërdor, =pin, një herë",
        purpose=(
            "verifik, konfirm, vërtet, hyr, identifik, siguri, regjistr, ricakt, rivendos, "
            "aktiv, llogari, qasje"
        ),
        ask="jepni, vendos, përdor, vijues, më poshtë, ja, fut",
        limit=("vlen, skadon, minuta, orë, mos e ndani, askujt, shpërfill, injoro, s'e kërkuat"),
        other=(
            "porosi, fatur, bilet, dërges, pako, telefon, klient, shum, totali, çmim, "
            "kodi postar, gabim, kart, rrug, pages"
        ),
        gift="zbritje, kupon, dhurat, ofert",
        standing="fjalëkalim, emër përdorues",
        common=(
            "dhe, në, të, e, një, për, me, ju, juaj, nuk, nëse, është, kjo, ky, nga, ose, "
            "ju lutemi, faleminderit, që"
        ),
    ),
    "eu": Words(
        code="kode, erabilera bakar, =pin",
        purpose=(
            "egiazt, baiezt, berrets, saio, segurtasun, erregistr, berrezar, berreskur, aktib, "
            "kontu, sarbide"
        ),
        ask="sartu, idatzi, erabili, honako, hurrengo, azpi, behe",
        limit="balio, iraung, minutu, ordu, ez partekatu, inori, ez egin",
        other=(
            "eskaera, faktura, bidalketa, pakete, telefono, bezero, zenbateko, prezio, "
            "posta kode, errore, txartel, kale, ordainket"
        ),
        gift="deskontu, kupoi, opari, eskaintza",
        standing="pasahitz, erabiltzaile izen",
        common=(
            "eta, da, bat, du, zure, hau, ez, duzu, ere, izan, dira, kaixo, eskerrik, mezu, "
            "zaizu, baduzu"
        ),
    ),
    "cy": Words(
        code="=cod, cod dilysu, god, untro, chod",
        purpose=(
            "dilysu, cadarnhau, mewngofnod, diogelwch, cofrestr, ailosod, adfer, gweithredu, "
            "cyfrif, mynediad"
        ),
        ask="rhowch, defnyddi, canlynol, isod, dyma",
        limit="dilys, dod i ben, munud, awr, peidiwch, anwybydd",
        other=(
            "archeb, anfoneb, tocyn, parsel, ffôn, cwsmer, cyfanswm, pris, cod post, gwall, "
            "cerdyn, taliad"
        ),
        gift="gostyngiad, cwpon, anrheg, cynnig",
        standing="cyfrinair, enw defnyddiwr",
        common=(
            "y, yr, a, i, o, yn, ar, eich, chi, os, nid, hwn, hon, gan, am, wedi, mae, er, "
            "gyda, helo, diolch"
        ),
    ),
    "ga": Words(
        code="=cód, chód, gcód, aon uaire",
        purpose="fíor, deimhn, logáil, sínigh, slánd, clár, athshocr, cuntas, rochtain",
        ask="cuir isteach, úsáid, seo a leanas, thíos, seo",
        limit="bailí, nóiméad, uair, ná roinn, neamhaird",
        other="ordú, sonrasc, ticéad, beartán, guthán, iomlán, praghas, earráid, cárta",
        gift="lascaine, cúpón, bronntan",
        standing="pasfhocal, focal faire, ainm úsáid",
        common=(
            "an, na, agus, ar, do, le, is, ní, go, seo, sin, leat, má, tá, ag, de, atá, dia duit"
        ),
    ),
    "hy": Words(
        code="կոդ, մեկանգամյա, ծածկագիր",
        purpose="հաստատ, մուտք, անվտանգ, գրանց, վերականգն, ակտիվ, հաշիվ",
        ask="մուտքագր, օգտագործ, հետևյալ, ստորև",
        limit="վավեր, րոպե, ժամ, մի կիսվ, անտես",
        other="պատվեր, հաշիվ ապրանք, առաք, հեռախոս, գումար, գին, սխալ, քարտ, վճար",
        gift="զեղչ, կտրոն, նվեր",
        standing="գաղտնաբառ",
        common="և, է, ձեր, համար, որ, եթե, այս, մի, չեք, դուք, կամ, բարև, շնորհակալ",
    ),
    "ka": Words(
        code="~კოდ, ერთჯერად",
        purpose="დადასტურ, დამოწმ, შესვლ, უსაფრთხ, რეგისტრ, აღდგენ, აქტივ, ანგარიშ",
        ask="შეიყვან, გამოიყენ, შემდეგ, ქვემოთ",
        limit="მოქმედ, იწურ, წუთ, საათ, არ გაუზიარ, უგულებელ",
        other="შეკვეთ, ინვოის, გზავნილ, ტელეფონ, თანხ, ფას, შეცდომ, ბარათ, გადახდ",
        gift="ფასდაკლ, კუპონ, საჩუქ",
        standing="პაროლ",
        common=("და, არის, თქვენი, თქვენს, რომ, თუ, ეს, ამ, არ, ან, გამარჯობა, გმადლობთ, მადლობა"),
    ),
    "mt": Words(
        code="kodiċi, =kodici, darba waħda",
        purpose="verifik, konferm, ikkonferm, sigurtà, reġistr, irrisett, kont",
        ask="daħħal, uża, li ġej, hawn taħt",
        limit="validu, jiskadi, minut, siegħa, taqsamx, injora",
        other="ordni, fattura, biljett, pakkett, telefon, ammont, prezz, żball, karta",
        gift="skont, kupun, rigal",
        standing="password, isem tal utent",
        common="u, li, ta, fil, biex, għal, dan, din, jekk, int, tiegħek, minn, ma, se",
    ),
}
