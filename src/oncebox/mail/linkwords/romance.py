"""Words of the Romance languages."""

# ruff: noqa: E501, RUF001 - words of other alphabets, a few to a line

from oncebox.mail.linkwords.table import Words

TABLE: dict[str, Words] = {
    "es": Words(
        do="verific|confirm|activar|activa tu|activa su|activa la|active su|activacion|validar|"
        "valida tu|restablec|reestablec|restaur|recuper|desbloque|cambiar contrasena|"
        "cambiar la contrasena|cambiar mi contrasena|cambiar tu contrasena|"
        "cambia tu contrasena|cambie su contrasena|nueva contrasena|crear contrasena|"
        "crear una contrasena|crear tu contrasena|elegir contrasena|establecer contrasena|"
        "establecer una|autentic|comprob",
        soft="iniciar sesion|inicia sesion|inicie sesion|acced|ingres|entrar|unirse|unirte|unete|"
        "unase|acept|invitacion|continuar|continua|registr|complet|finaliz|elimin|borrar|"
        "suscrib|autoriz|aprob|empezar|si, ",
        never="cancelar suscripcion|cancelar la suscripcion|cancelar tu sus|anular suscripcion|"
        "darse de baja|darte de baja|date de baja|dar de baja|baja|desuscri|preferencia|"
        "configuracion|ajustes|privacidad|terminos|condiciones|ayuda|soporte|contact|"
        "preguntas frecuentes|!en el navegador|!en tu navegador|version web|ver en linea|"
        "leer mas|mas informacion|saber mas|descarg|compart|siguenos|encuesta|aviso legal|"
        "politica|cookies|gestionar|sobre nosotros|acerca de|nuevo enlace|nuevo codigo|"
        "reenvi|reglas|normas",
        against="no fuiste|no has sido|no fui|no eres|no solicit|no has solicit|no lo solicit|"
        "no reconoc|reportar|denunci|rechaz|declin|revoc|cancel|deshac|bloque|!protege tu|"
        "!proteja su|!asegura tu|!asegure su|sospech|no hiciste|no creaste|no pediste",
        ignore="ignor|no es necesari|hacer caso omiso|haz caso omiso",
        business="pedido|factura|recibo|reserva|cita|pago|compra|envio|paquete|carrito|oferta|"
        "descuento|evento|entrada|calendario|ver |abrir|leer|responder|comentario|mensaje|"
        "documento|archivo|actividad|detalles",
    ),
    "pt": Words(
        do="verifi|confirm|ativar|ative |ativac|activar|active a|activac|validar|valide|redefin|"
        "repor a|repor palavra|repor senha|reposi|restaur|recuper|desbloque|alterar senha|"
        "alterar a senha|alterar minha senha|alterar palavra|alterar a palavra|mudar senha|"
        "mudar minha senha|mudar a senha|trocar senha|trocar a senha|nova senha|nova palavra|"
        "criar senha|criar uma senha|definir senha|definir a|definir palavra|definir uma|"
        "autentic|cadastrar nova senha|cadastrar senha",
        soft="entrar|iniciar sessao|fazer login|acess|aced|juntar|junte|participar|aceit|convite|"
        "continuar|continue|registr|cadastr|complet|conclu|finaliz|excluir|exclua|exclusao|elimin|apagar|"
        "inscrev|autoriz|aprov|comecar|assinar|sim, ",
        never="cancelar inscricao|cancelar a inscricao|cancelar subscricao|cancelar assinatura|"
        "descadastr|remover inscricao|desinscrev|anular subscri|preferencia|configurac|"
        "definicoes|privacidade|termos|condicoes|ajuda|suporte|contat|contact|!no navegador|"
        "versao web|ver online|leia mais|saiba mais|saber mais|baixar|transferir|compartilh|"
        "partilh|siga-nos|pesquisa|aviso legal|politica|cookies|gerenciar|gerir|sobre nos|"
        "novo link|novo codigo|reenvi|regras",
        against="nao foi voce|nao fui|nao solicit|nao reconhec|nao pedi|denunci|reportar|rejeit|"
        "recus|revog|cancel|desfaz|bloque|!proteja sua|!proteger minha|suspeit|nao criou|"
        "nao e voce|nao fez",
        ignore="ignor|desconsider|nenhuma acao",
        business="pedido|encomenda|fatura|recibo|reserva|consulta|pagamento|compra|envio|entrega|"
        "pacote|carrinho|oferta|desconto|evento|ingresso|calendario|ver |abrir|ler |"
        "responder|comentario|mensagem|documento|arquivo|atividade|detalhes",
    ),
    "fr": Words(
        do="verifi|confirm|activer|activez|activation|valider|validez|reinitialis|recuper|"
        "restaur|deverrouill|debloqu|changer le mot|changer mon mot|changer mot|"
        "changer votre mot|changez votre mot|changez de mot|modifiez votre mot|modifier le mot|modifier mon mot|modifier votre mot|nouveau mot|"
        "creer un mot|creer un nouveau|creer votre mot|creer mon mot|definir un mot|"
        "definir mon|definir votre|choisir un mot|choisir un nouveau|authentifi",
        soft="se connecter|connecter|connectez|connexion|me connecter|rejoin|accept|invitation|"
        "continuer|poursuiv|inscri|terminer|finalis|supprim|abonn|autoris|approuv|commencer|"
        "acceder|accedez|oui, |s'identifier|identifiez|participer|particip",
        never="desabonn|se desinscri|desinscri|preference|parametres|reglages|confidentialite|"
        "vie privee|conditions|mentions legales|aide|assistance|contact|faq|"
        "!dans le navigateur|!dans votre navigateur|version web|version en ligne|voir en ligne|"
        "en savoir plus|lire la suite|telecharg|partag|suivez|sondage|avis|politique|cookies|"
        "gerer|a propos|nouveau lien|nouveau code|renvoy|regles",
        against="pas vous|n'etes pas|n’etes pas|n'etait pas|n'avez pas dem|n'avez pas cre|n'avez pas eff|n'avez pas init|n'avez pas soll|vous n'avez pas fait|pas demande|"
        "pas a l'origine|pas a l’origine|pas reconnu|ne reconnaissez|signal|refus|declin|"
        "rejet|revoqu|annul|bloqu|!securisez votre|!securiser mon|suspect|pas moi",
        ignore="ignor|aucune action|ne tenez pas compte|pas tenir compte",
        business="commande|facture|reservation|rendez-vous|paiement|achat|livraison|colis|panier|"
        "offre|promotion|evenement|billet|calendrier|voir|ouvrir|lire|repondre|commentaire|"
        "message|document|fichier|activite|details|consulter",
    ),
    "it": Words(
        do="verific|conferm|attiva|convalid|reimpost|reset|ripristin|recuper|sblocc|"
        "cambia password|cambia la password|cambia la tua|cambia la mia|modifica password|"
        "modifica la password|nuova password|crea password|crea una password|crea la tua|"
        "crea una nuova|imposta password|imposta la|imposta una|scegli una|autentic",
        soft="acced|login|entra|unisciti|partecip|accett|invito|continu|prosegu|registr|complet|"
        "concludi|elimin|cancella account|iscriviti|iscrizione|autorizz|approv|inizia|si, ",
        never="annulla iscrizione|annulla l'iscrizione|annulla l’iscrizione|annullare l'iscri|"
        "disiscri|cancella iscrizione|cancellati|preferenz|impostazioni|privacy|termini|"
        "condizioni|note legali|aiuto|assistenza|supporto|contatt|!nel browser|versione web|"
        "visualizza online|leggi|scopri|maggiori informazioni|scarica|condivid|seguici|"
        "sondaggio|recension|informativa|cookie|gestisci|chi siamo|nuovo link|nuovo codice|"
        "invia di nuovo|regole",
        against="non sei stat|non sono stat|non hai rich|non ha rich|non hai effett|non hai creat|non hai fatto|non ricono|segnala|"
        "rifiut|declin|revoc|annull|blocc|!proteggi il|sospett|non sei tu|non l'hai",
        ignore="ignor|nessuna azione",
        business="ordine|fattura|ricevuta|prenotazion|appuntament|pagament|acquist|spedizion|consegna|"
        "pacco|carrello|offert|sconto|evento|bigliett|calendario|vedi|visualizza|apri |"
        "rispondi|commento|messaggio|documento|attivita|dettagli",
    ),
    "ro": Words(
        do="verific|confirm|activeaz|activati|activare|valideaz|validare|reset|recuper|"
        "deblocheaz|deblocare|restaur|schimba parola|schimbati parola|schimbare parola|"
        "modifica parola|parola noua|seteaza parola|setati parola|creeaza o parola|"
        "creati o parola|creaza o parola|alege o parola",
        soft="autentific|conect|intra|logheaza|alatur|accept|invitati|continu|inregistr|finaliz|"
        "sterge|abon|aprob|autoriz|incepe",
        never="dezabon|preferint|setari|confidential|termeni|conditii|ajutor|asistenta|contact|"
        "suport|!in browser|versiune web|citeste|afla mai|descarc|distribui|urmareste|"
        "politica|cookie|gestion|despre noi|link nou|cod nou|retrimite",
        against="nu ai fost|nu ati fost|nu ati solicit|nu ati cerut|nu ati creat|nu ati init|nu ati facut|nu ai solicit|nu ai cerut|nu ai creat|nu ai init|nu ai facut|nu esti|nu tu|nu dumneavoastra|nu recuno|raport|refuz|respinge|revoc|"
        "anul|blocheaz|blocat|suspect|protej|nu eu",
        ignore="ignor",
        business="comand|factur|rezerv|programare|plata|livrare|colet|cos |oferta|reducere|eveniment",
    ),
    "ca": Words(
        do="verific|confirm|activar|activeu|activa el|validar|restabl|restaur|recuper|desbloque|"
        "desbloqueg|canvia la contra|canviar la contra|canvia la meva|canviar la meva|"
        "nova contrasenya|crea una contra|reinicia la contra|reinicialitz",
        soft="inicia la sessio|iniciar sessio|inicia sessio|entra|uneix|accept|invitacio|continua|"
        "registr|complet|elimin|suprim|subscriu|autoritz|comenc",
        never="cancel·lar la subs|cancella la subs|donar-se de baixa|dona't de baixa|baixa|"
        "preferenc|configuracio|privadesa|privacitat|termes|condicions|ajuda|suport|contact|"
        "!al navegador|versio web|llegeix|mes informacio|descarreg|compart|politica|"
        "avis legal|nou enllac",
        against="no has estat|no heu estat|no ho has|no has sol|no heu sol|no recone|denuncia|rebutj|"
        "revoc|cancel|anul|bloqueja|sospit",
        ignore="ignor",
        business="comanda|factura|reserva|pagament|compra|enviament|oferta",
    ),
    "gl": Words(
        do="verific|confirm|activar|activa a|validar|restablec|recuper|desbloque|"
        "cambiar o contrasinal|cambiar contrasinal|novo contrasinal|crear contrasinal",
        soft="iniciar sesion|entrar|acced|unirse|acept|convite|invitacion|continuar|rexistr|"
        "elimin|subscrib",
        never="cancelar a subs|darse de baixa|preferencia|axustes|configuracion|privacidade|termos|"
        "condicions|axuda|soporte|contact|descarg",
        against="non fuches|non foi|non solicit|denunci|rexeit|revog|cancel|bloque",
        ignore="ignor",
        business="pedido|factura|reserva|pagamento|compra|envio",
    ),
    "oc": Words(
        do="verific|confirm|activar|reinicializ|novel senhal",
        soft="se connectar|accept|convit",
        never="desabon|preferenc|condicions|ajuda",
    ),
    "eo": Words(
        do="konfirm|kontrol|aktivig|restarig|nova pasvort|sxangi pasvort",
        soft="ensalut|alig|akcept|invit",
        never="malabon|agord|privatec|kondic|helpo",
    ),
}
