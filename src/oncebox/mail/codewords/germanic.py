"""German, Dutch, Swedish, Danish, Norwegian, Icelandic, Afrikaans."""

from oncebox.mail.codewords.words import Words

TABLE = {
    "de": Words(
        code=(
            "diese ziffern, folgende ziffern, diese zahl, folgende zahl, folgende nummer, "
            "~code, ~kennzahl, einmalpass, einmal pass, einmalkenn, ~einmalcode, =pin, =tan, "
            "~kennwort einmal, einmalig, verifizierungsnummer, zugangsnummer, "
            "sicherheitsnummer, ~schlussel einmal, prufziffer, prufnummer, freischaltnummer"
        ),
        purpose=(
            "bestatig, verifizier, anmeld, einlogg, login, sicherheit, registrier, zurucksetz, "
            "freischalt, aktivier, authentifizier, identitat, wiederherstell, zwei faktor, "
            "konto, zugang, uberpruf, einmal, legitim"
        ),
        ask=(
            "geben sie, gib, eingeben, eingib, verwende, nutze, benutze, folgend, unten, "
            "lautet, hier ist, einzugeben, einfugen, kopier, trage, oben"
        ),
        limit=(
            "gultig, ablauf, lauft ab, minute, stunde, weitergeb, niemand, teilen sie, "
            "nicht angeford, ignorier, gib ihn nicht, verfall, nicht an dritte"
        ),
        other=(
            "bestell, rechnung, auftrag, ticket, sendung, paket, lieferung, telefon, =tel, "
            "rufnummer, mobilnummer, kundennummer, kunden nr, vorgang, aktenzeichen, referenz, "
            "betrag, summe, preis, gesamt, ~postleitzahl, =plz, fehler, steuer, ust id, =iban, "
            "=bic, kontonummer, mitglied, vertrag, seriennummer, version, artikel, menge, "
            "seite, ausgabe, karte, endet auf, endend auf, strasse, straße, hausnummer, "
            "zimmer, =hrb, =hra, handelsregister, seit, =fax, hotline, buchungsnummer, "
            "transaktion, zahlung, sendungsverfolg, punkte, teilnehmer, personalnummer, =id, "
            "benutzer id, ~nummer der, zahlernummer, fall nr, amtsgericht"
        ),
        gift=(
            "gutschein, rabatt, aktionscode, vorteilscode, geschenk, promo, =sparen, spare, "
            "einlosen, angebot, warenkorb, pramie, kasse"
        ),
        standing=(
            "~passwort, ~kennwort, benutzername, initialpass, sicherungscodes, "
            "wiederherstellungscodes, backup codes, notfallcodes"
        ),
        event=(
            "besprechung, meeting, konferenz, einwahl, termin, reservierung, buchung, flug, "
            "reise, hotel, anreise, abreise, check in, veranstaltung, teilnehmen, sitzplatz"
        ),
        common=(
            "der, die, das, und, sie, ihr, ihre, ihren, zu, fur, nicht, mit, von, ist, ein, "
            "eine, auf, wir, du, dein, deine, wenn, diese, dieser, bitte, hallo, um, im, den, "
            "dem, haben, wurde"
        ),
    ),
    "nl": Words(
        code=(
            "deze cijfers, volgende cijfers, dit nummer, ~code, ~kode, =pin, eenmalig wacht, "
            "eenmalige, controlenummer, verificatienummer"
        ),
        purpose=(
            "verifi, bevestig, inlog, aanmeld, login, log in, beveilig, registr, herstel, "
            "activeer, activer, authenti, identiteit, toegang, account, tweestaps, eenmalig, "
            "controle, reset"
        ),
        ask=(
            "voer, gebruik, vul, typ, volgende, onderstaand, hieronder, hier is, kopieer, "
            "invoer, deze"
        ),
        limit=(
            "geldig, verloop, verloopt, minuten, minuut, uur, deel deze, niet delen, niemand, "
            "negeer, negeren, niet aangevraagd, nooit"
        ),
        other=(
            "bestel, order, factuur, ticket, zending, pakket, levering, telefoon, =tel, "
            "klantnummer, referentie, kenmerk, bedrag, totaal, prijs, ~postcode, fout, =btw, "
            "=kvk, =iban, rekeningnummer, lidnummer, contract, serienummer, versie, artikel, "
            "aantal, pagina, eindigend op, eindigt op, kaart, straat, huisnummer, kamer, "
            "sinds, transactie, betaling, mobiel, dossier, zaaknummer, track, boekingsnummer, "
            "punten"
        ),
        gift=(
            "~kortingscode, korting, cadeau, waardebon, tegoed, promo, actiecode, aanbieding, "
            "inwissel, bespaar"
        ),
        standing="~wachtwoord, gebruikersnaam, back upcodes, herstelcodes, back up codes",
        event=(
            "vergadering, afspraak, reservering, boeking, vlucht, reis, hotel, aankomst, "
            "vertrek, evenement, bijeenkomst"
        ),
        common=(
            "de, het, een, en, van, je, jouw, uw, voor, op, met, dat, dit, deze, is, niet, te, "
            "om, bij, wij, we, als, heeft, hebt, bedankt, hallo, naar, aan, zijn, wordt"
        ),
    ),
    "sv": Words(
        code=(
            "dessa siffror, foljande siffror, ~kod, engangslosen, =pin, engangskod, "
            "verifieringsnummer, ~koden"
        ),
        purpose=(
            "verifier, bekraft, logga in, inlogg, sakerhet, registrer, aterstall, aktiver, "
            "autentiser, identitet, konto, tvafaktor, tvasteg, engang, atkomst, legitim"
        ),
        ask="ange, anvand, skriv, foljande, nedan, har ar, mata in, kopiera, fyll i",
        limit=(
            "giltig, galler, upphor, gar ut, minuter, timm, dela inte, dela aldrig, ignorera, "
            "begart, inte dela, bortse"
        ),
        other=(
            "order, bestallning, faktura, kvitto, arende, biljett, sparning, paket, leverans, "
            "forsandelse, telefon, =tel, kundnummer, referens, belopp, totalt, summa, pris, "
            "postnummer, fel, moms, org nr, organisationsnummer, personnummer, kontonummer, "
            "medlem, avtal, serienummer, version, artikel, antal, sida, slutar pa, kort, gata, "
            "vaning, sedan, transaktion, betalning, mobil, kolli, bokningsnummer"
        ),
        gift=("~rabattkod, rabatt, presentkort, vardekod, kampanj, erbjudande, kupong, los in"),
        standing="~losenord, anvandarnamn, reservkoder, aterstallningskoder, sakerhetskoder",
        event=(
            "mote, ~möteskod, ~möteslösen, reservation, bokning, flyg, resa, hotell, ankomst, "
            "avresa, evenemang, incheckning"
        ),
        common=(
            "och, att, det, som, pa, ar, av, for, med, du, din, ditt, den, till, inte, har, "
            "vi, om, ett, en, hej, tack, kan, detta, fran, eller, dig, om du"
        ),
    ),
    "da": Words(
        code="disse cifre, folgende cifre, ~kode, engangsadgang, =pin, engangskode, ~koden",
        purpose=(
            "bekraeft, bekræft, verific, log ind, login, logge ind, sikkerhed, registrer, "
            "nulstil, gendan, aktiver, godkend, identitet, konto, to faktor, totrins, engang, "
            "adgang"
        ),
        ask=("indtast, brug, skriv, folgende, nedenfor, her er, nedenstaende, kopier, anvend"),
        limit=(
            "gyldig, udlob, minutter, time, del ikke, ikke dele, ignorer, anmodet, se bort, aldrig"
        ),
        other=(
            "ordre, bestilling, faktura, kvittering, sag, billet, sporing, pakke, levering, "
            "forsendelse, telefon, =tlf, kundenummer, reference, belob, i alt, pris, "
            "postnummer, fejl, moms, =cvr, kontonummer, medlem, serienummer, version, vare, "
            "antal, side, slutter pa, kort, gade, vej, transaktion, betaling, mobil, "
            "bookingnummer"
        ),
        gift="~rabatkode, rabat, gavekort, vaerdikupon, kampagne, tilbud, kupon, indlos",
        standing=(
            "~adgangskode, ~kodeord, brugernavn, backupkoder, gendannelseskoder, "
            "sikkerhedskopikoder"
        ),
        event=(
            "mode, møde, ~mødekod, reservation, booking, fly, rejse, hotel, ankomst, afrejse, "
            "begivenhed"
        ),
        common=(
            "og, at, det, som, pa, er, af, for, med, du, din, dit, den, til, ikke, har, vi, "
            "om, et, en, hej, tak, kan, dette, fra, eller, dig, hvis, blev"
        ),
    ),
    "no": Words(
        code=("disse sifrene, folgende siffer, ~kode, engangspassord, =pin, engangskode, ~koden"),
        purpose=(
            "bekreft, verifi, logg inn, innlogg, logge inn, sikkerhet, registrer, "
            "tilbakestill, gjenopprett, aktiver, godkjenn, identitet, konto, tofaktor, "
            "totrinns, engang, tilgang"
        ),
        ask=("skriv, bruk, tast inn, folgende, nedenfor, under, her er, kopier, oppgi, angi"),
        limit=("gyldig, utlop, minutter, time, ikke del, del aldri, ignorer, bedt om, se bort"),
        other=(
            "ordre, bestilling, faktura, kvittering, sak, billett, sporing, pakke, levering, "
            "forsendelse, telefon, =tlf, kundenummer, referanse, belop, totalt, pris, "
            "postnummer, feil, mva, org nr, kontonummer, medlem, serienummer, versjon, vare, "
            "antall, side, slutter pa, kort, gate, vei, transaksjon, betaling, mobil, "
            "bookingnummer, kid"
        ),
        gift="~rabattkode, rabatt, gavekort, kampanje, tilbud, kupong, los inn",
        standing="~passord, brukernavn, reservekoder, gjenopprettingskoder, sikkerhetskoder",
        event=(
            "mote, møte, ~møtekod, reservasjon, bestilling av, fly, reise, hotell, ankomst, "
            "avreise, arrangement"
        ),
        common=(
            "og, at, det, som, pa, er, av, for, med, du, din, ditt, den, til, ikke, har, vi, "
            "om, et, en, hei, takk, kan, dette, fra, eller, deg, hvis, ble"
        ),
    ),
    "is": Words(
        code="~koði, ~koda, ~koðann, ~kodi, =pin, einnota lykil, ~kóð, ~kod, ~numer til",
        purpose=(
            "stadfest, staðfest, innskra, oryggi, skra, endurstill, virkja, auðkenn, audkenn, "
            "aðgang"
        ),
        ask="sladu, sláðu, notadu, notaðu, eftirfarandi, her fyrir, fyrir nedan",
        limit="gild, rennur ut, minut, klukkustund, ekki deila, hunsa, deildu",
        other=(
            "pontun, reikning, sending, simi, postnumer, kvittun, upphaed, upphæð, kennitala, "
            "vidskiptanumer"
        ),
        gift="afslatt, gjafa, inneign",
        standing="~lykilord, ~lykilorð, notandanafn",
        common=(
            "og, að, ad, er, um, til, fyrir, ekki, thu, þu, þú, þinn, með, med, þetta, ef, "
            "við, sem, var, hefur"
        ),
    ),
    "af": Words(
        code="~kode, =pin, eenmalige",
        purpose=(
            "bevestig, verifi, meld aan, aanmeld, sekuriteit, registr, herstel, aktiveer, "
            "rekening, toegang"
        ),
        ask="voer, gebruik, volgende, hieronder, tik, hier is",
        limit="geldig, verval, minute, ure, moenie, ignoreer, deel",
        other=(
            "bestelling, faktuur, kwitansie, pakkie, aflewering, telefoon, poskode, bedrag, "
            "verwysing"
        ),
        gift="afslag, geskenk, koepon",
        standing="~wagwoord, gebruikersnaam",
        common=("die, en, jou, u, is, nie, vir, om, te, het, van, met, hierdie, op, as, ons, dit"),
    ),
}
