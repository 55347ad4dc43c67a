"""Words of English, German, Dutch and the languages of the north."""

# ruff: noqa: E501, RUF001 - words of other alphabets, a few to a line

from oncebox.mail.linkwords.table import Words

TABLE: dict[str, Words] = {
    "en": Words(
        do="verify|verifi|authenticat|authentifi|autentic|autentif|avtentik|аутенти|initializ|confirm|activat|validate|reset|recover|unlock|unblock|restore|"
        "re-enable|reactivat|set your password|set a password|set password|set a new|set new|"
        "set up your password|choose a password|choose a new|choose your password|"
        "choose password|create a password|create your password|create password|"
        "create new password|create a new password|new password|change password|"
        "change my password|change your password|update password|update your password|"
        "magic link|authenticate",
        soft="sign in|sign me in|sign-in|signin|signing in|log in|log me in|log-in|login|"
        "logging in|join|accept|invit|subscribe|opt in|opt-in|approve|authoriz|authoris|"
        "complete|finish|continue|proceed|get started|delete|deletion|enrol|register|sign up|"
        "access your|access my|access the|yes|set up|create account|create your account|"
        "create my account|claim your account|open the app|let me in|one-time|redeem",
        never="unsubscri|powered by|opt out|opt-out|preference|email settings|notification settings|"
        "mail settings|manage|invite friend|invite your friend|invite a friend|"
        "invite more|invite other|continue reading|continue shopping|keep reading|keep shopping|refer a|refer your|privacy|terms|legal|"
        "imprint|polic|cookie|help|support|faq|contact|learn more|read more|more info|"
        "find out|about|blog|!in browser|!in your browser|view online|view this email|"
        "web version|!web page|download|app store|get the app|get our app|play store|share|"
        "follow us|like us|feedback|survey|rate |home|shop|website|our site|careers|"
        "status page|documentation|docs|community|guide|forward to|new one|new link|new code|"
        "resend|re-send|send again|another link|request a|request another|send a new|tweet|"
        "edit your|edit my|rules of|change email",
        against="not me|not you|wasn't you|was not you|wasn't me|was not me|?wasn’t|isn't you|"
        "isn’t you|is not you|you didn't|didn't request|didn't sign|didn't create|didn't make|didn't ask|didn't try|did you not|you did not|did not request|did not ask|did not create|did not make|did not initiate|did not sign|you didnt|haven't requested|have not requested|have not made|not done by|not by you|not made by|weren't expect|not expect|don't recogni|do not recogni|"
        "don’t recogni|report|!secure your|!secure my|!secure account|revoke|decline|reject|"
        "deny|cancel|undo|revert|block|not mine|wrong account|not your|!no longer|unauthori|"
        "suspicious|!lock my|!lock your|disavow|disable|stop|never signed|not sign",
        ignore="ignore|delete this|discard|dismiss|disregard|no further action|nothing to do|safely|no action",
        business="order|invoice|receipt|booking|reservation|appointment|payment|purchase|shipment|"
        "deliver|track|parcel|package|webinar|event|rsvp|attend|seat|ticket|calendar|demo|"
        "trial|discount|offer|sale|deal|coupon|cart|checkout|return|refund|upgrade|billing|"
        "article|conference|meeting|browse |buy|product|explore|issue|request|review|view|"
        "open|see |reply|comment|message|document|file|photo|activity|details|dashboard|task|"
        "project|check out|gift|voucher|reward|status|profile",
    ),
    "de": Words(
        do="bestatig|verifizier|aktivier|freischalt|zurucksetz|zuruckzusetz|zurucksetzung|"
        "entsperr|wiederherstell|validier|passwort andern|passwort zu andern|kennwort zu andern|"
        "setze dein passwort|setzen sie ihr passwort|setzen sie das passwort|andere dein passwort|"
        "andern sie ihr passwort|andern sie bitte ihr passwort|passwort festlegen|"
        "passwort erstellen|passwort vergeben|passwort setzen|neues passwort|neues kennwort|"
        "kennwort andern|kennwort festlegen|passwort wahlen|uberpruf|authentifizier|freigeben",
        soft="anmeld|einlogg|login|beitret|annehm|einladung|akzeptier|abonnier|fortfahren|weiter|"
        "registrier|abschlie|loschen|zustimm|ja, |jetzt starten|loslegen|teilnehm|zugang|"
        "mitmachen",
        never="abmeld|abbestell|austragen|abmelden|datenschutz|impressum|nutzungsbedingung|agb|"
        "einstellung|praferenz|hilfe|kontakt|support|haufige fragen|!im browser|"
        "online ansehen|onlineversion|webversion|mehr erfahren|weiterlesen|herunterladen|"
        "teilen|folge uns|folgen sie|bewert|umfrage|startseite|webseite|website|richtlinie|cookie|rechtlich|"
        "verwalten|uber uns|erneut|neuen link|neuen code|regeln",
        against="nicht sie|nicht du|du das nicht|sie das nicht|du es nicht|sie es nicht|nicht von|nicht ich|haben sie nicht|hast du nicht|nicht angefordert|nicht angemeldet|nicht angelegt|nicht beantragt|nicht veranlasst|"
        "melden sie dies|melden sie es|melden sie uns|ablehn|widerruf|stornier|abbrech|"
        "ruckgangig|sperren|!sichern sie|!konto sichern|verdachtig|unbefugt|keine anfrage|"
        "nicht erkenn|nicht selbst",
        ignore="ignorier|keine weiteren|nichts tun|nichts weiter|gegenstandslos",
        business="bestellung|rechnung|buchung|reservierung|termin |termine|zahlung|lieferung|sendung|paket|"
        "warenkorb|rabatt|angebot|gutschein|kaufen|veranstaltung|kalender|bezahl|ansehen|"
        "offnen|anzeigen|lesen|antwort|kommentar|nachricht|dokument|datei|aktivitat|details",
    ),
    "nl": Words(
        do="bevestig|verifie|verifi|activeer|activer|opnieuw instellen|herstel|deblokk|"
        "ontgrendel|valideer|wachtwoord wijzigen|wachtwoord instellen|wachtwoord aanmaken|"
        "wachtwoord resetten|nieuw wachtwoord|controleer|stel je wachtwoord|"
        "stel uw wachtwoord",
        soft="inlog|log in|aanmeld|meld je aan|doe mee|deelnem|accepte|uitnodiging|doorgaan|"
        "ga verder|registr|voltooi|verwijder|abonne|toegang|word lid",
        never="afmeld|uitschrij|voorkeur|instelling|privacy|voorwaarden|hulp|help|contact|support|"
        "!in browser|!in je browser|online bekijken|webversie|lees meer|meer informatie|"
        "download|delen|volg ons|beoordeel|enquete|juridisch|cookie|beheer|over ons|"
        "opnieuw aanvragen|nieuwe link|nieuwe code",
        against="niet jij|niet u|jij dit niet|jij het niet|jij niet|u dit niet|u het niet|was jij|was u|niet door jou|niet door u|heb je niet gevr|heb je niet aang|hebt u niet gevr|hebt u niet aang|heb jij niet|meld dit|"
        "rapporteer|weiger|afwijz|intrek|annule|ongedaan|blokkeer|!beveilig je|!beveilig uw|"
        "verdacht|niet herken|niet aangevraagd",
        ignore="negeer|niets te doen|geen actie",
        business="bestelling|factuur|boeking|reservering|afspraak|betaling|levering|pakket|"
        "winkelwagen|korting|aanbieding|evenement|kopen|bekijk|lees|reageer|bericht|document|"
        "bestand|activiteit",
    ),
    "af": Words(
        do="bevestig|verifieer|aktiveer|herstel|ontsluit|verander wagwoord|nuwe wagwoord|"
        "wagwoord terugstel|stel wagwoord|stel jou wagwoord|terugstel",
        soft="teken in|meld aan|aanteken|aanvaar|uitnodiging|sluit aan|gaan voort|registreer",
        never="teken uit|voorkeure|instellings|privaatheid|bepalings|hulp|kontak",
        against="nie jy|nie versoek|kanselleer|rapporteer|weier|herroep",
        ignore="ignoreer",
    ),
    "sv": Words(
        do="bekrafta|verifiera|aktivera|aterstall|las upp|validera|byt losenord|andra losenord|"
        "nytt losenord|valj losenord|skapa losenord|ange losenord|ange nytt|byta losenord|"
        "andra ditt losenord|byt ditt losenord",
        soft="logga in|inlogg|ga med|anslut|acceptera|tacka ja|inbjud|fortsatt|registrera|slutfor|"
        "radera|ta bort|prenumerera|kom igang|godkann",
        never="avregistrera|avprenumer|avanmal|avsluta pren|installning|integritet|villkor|hjalp|"
        "kontakt|support|!i webblasare|webbversion|las mer|ladda ner|dela med|folj oss|omdome|"
        "enkat|cookie|om oss|hantera|policy|ny lank|ny kod|regler",
        against="inte du|inte var|inte begar|inte bett|rapportera|avboj|neka|aterkalla|avbryt|angra|"
        "blockera|!sakra ditt|misstankt|inte kanner|inte har begar|inte har bett|inte har registr|inte sjalv",
        ignore="ignorera|bortse",
        business="bestallning|faktura|bokning|betalning|leverans|paket|kop |erbjudande|rabatt|"
        "oppna|svara|kommentar|meddelande",
    ),
    "da": Words(
        do="bekraeft|verificer|aktiver|nulstil|las op|genopret|skift adgangskode|valider|"
        "andr adgangskode|aendr adgangskode|ny adgangskode|opret adgangskode|"
        "vaelg adgangskode|skift min adgangskode|skift din adgangskode|"
        "aendre min adgangskode|aendr din",
        soft="log ind|log pa|tilmeld|deltag|accepter|invitation|fortsaet|registrer|fuldfor|slet|"
        "abonner|godkend|kom i gang",
        never="afmeld|framelding|praeferenc|indstilling|privatliv|vilkar|betingelser|hjaelp|"
        "kontakt|support|!i browser|webversion|laes mere|hent app|folg os|anmeld os|cookie|"
        "om os|administrer|politik|nyt link|ny kode|regler",
        against="ikke dig|ikke var|ikke bedt|ikke anmodet|rapporter|afvis|tilbagekald|annuller|"
        "fortryd|bloker|!sikre din|mistaenkelig|ikke kender|ikke selv",
        ignore="ignorer|se bort fra",
        business="ordre|bestilling|faktura|booking|betaling|levering|pakke|kob|tilbud|rabat|abn|svar|"
        "kommentar|besked",
    ),
    "nb": Words(
        do="bekreft|verifiser|aktiver|tilbakestill|nullstill|las opp|gjenopprett|endre passord|"
        "bytt passord|nytt passord|opprett passord|velg passord|sett passord|valider|"
        "endre passordet|bytt passordet",
        soft="logg inn|logg pa|bli med|godta|aksepter|invitasjon|fortsett|registrer|fullfor|slett|"
        "abonner|godkjenn|kom i gang",
        never="meld deg av|avmeld|innstilling|preferanse|personvern|vilkar|hjelp|kontakt|support|"
        "!i nettleser|nettversjon|les mer|last ned|folg oss|cookie|informasjonskaps|om oss|"
        "administrer|retningslinj|ny lenke|ny kode",
        against="ikke deg|ikke var|ikke ba om|ikke bedt|rapporter|avsla|avvis|tilbakekall|avbryt|angre|"
        "blokker|!sikre kontoen|mistenkelig|ikke kjenner|ikke har bedt|ikke selv",
        ignore="ignorer|se bort fra",
        business="ordre|bestilling|faktura|betaling|levering|pakke|kjop|tilbud|rabatt|apne|svar|"
        "kommentar|melding",
    ),
    "is": Words(
        do="stadfest|sannprof|virkja|endurstill|endursetja|aflaesa|breyta lykilor|nytt lykilor|"
        "velja lykilor|setja lykilor|breyttu lykilor|opna reikning",
        soft="skra inn|innskra|skra mig|skradu|ganga i|taka thatt|thiggja bo|samthykk|bod |bjoda|"
        "halda afram|eya",
        never="afskra|haetta ask|kjorstilling|stillingar|personvernd|skilmal|hjalp|samband|reglur",
        against="ekki thu|ekki be|hafna|tilkynna|afturkalla|haetta vi",
        ignore="hunsa",
    ),
    "fo": Words(
        do="vatta|vattan|broyt loynior",
        soft="rita inn",
        never="melda fra",
    ),
    "lb": Words(
        do="bestateg|confirm|zerecksetz",
        soft="umellen",
        never="ofmellen",
    ),
    "fy": Words(
        do="befestig|wachtwurd",
        soft="oanmelde",
        never="ofmelde",
    ),
}
