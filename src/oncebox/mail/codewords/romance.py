"""Spanish, Portuguese, French, Italian, Romanian, Catalan, Galician."""

from oncebox.mail.codewords.words import Words

TABLE = {
    "es": Words(
        code=(
            "estos digitos, siguientes digitos, estos numeros, siguiente numero, codigo, =pin, "
            "un solo uso, clave dinamica, clave temporal, clave de acceso, clave de firma, "
            "clave unica, clave de verificacion, clave de seguridad, clave de un, uso unico, "
            "clave otp, contrasena temporal de un, numero de verificacion, "
            "contrasena dinamica, token de seguridad"
        ),
        purpose=(
            "verific, confirm, iniciar sesion, inicio de sesion, inicia sesion, acceso, "
            "acceder, seguridad, registr, restablec, recuper, activ, autentic, identidad, "
            "cuenta, dos pasos, dos factores, ingres, desbloque, valid, autoriz"
        ),
        ask=(
            "introduc, introduzca, ingres, usa, utiliz, escrib, siguiente, a continuacion, "
            "aqui, copia, debajo, digit, abajo"
        ),
        limit=(
            "caduca, vence, expira, valid, vigencia, minutos, hora, no compart, no lo compart, "
            "nadie, ignor, no solicit, no has solicit"
        ),
        other=(
            "pedido, factura, recibo, boleto, entrada, ticket, seguimiento, rastreo, envio, "
            "paquete, telefono, =tel, llame, llama al, celular, cliente, referencia, importe, "
            "total, precio, monto, codigo postal, =cp, error, =nif, =cif, =iban, "
            "numero de cuenta, socio, contrato, serie, version, articulo, producto, cantidad, "
            "pagina, terminad, tarjeta, calle, avenida, piso, habitacion, desde, transaccion, "
            "pago, localizador, caso, expediente, saldo, puntos, dni, rfc, guia"
        ),
        gift=(
            "descuento, promocion, cupon, regalo, vale, oferta, codigo promo, canje, ahorra, rebaja"
        ),
        standing=(
            "contrasena, =clave, claves, nombre de usuario, codigos de respaldo, "
            "codigos de recuperacion"
        ),
        event=(
            "reunion, reserva, vuelo, viaje, hotel, llegada, salida, evento, cita, embarque, "
            "huesped, estancia"
        ),
        common=(
            "el, la, los, las, de, que, y, en, un, una, tu, su, para, por, con, no, es, se, "
            "si, este, esta, hola, gracias, ha, al, del, te, le, lo"
        ),
    ),
    "pt": Words(
        code=(
            "estes digitos, seguintes digitos, estes numeros, seguinte numero, codigo, =pin, "
            "uso unico, senha temporaria, senha de uso, chave de acesso, "
            "numero de verificacao, senha descartavel, token de acesso, =token, senha unica, "
            "palavra passe unica"
        ),
        purpose=(
            "verific, confirm, login, entrar, iniciar sessao, inicio de sessao, acesso, "
            "acessar, aceder, seguranca, registr, redefin, recuper, ativ, autentic, "
            "identidade, conta, duas etapas, dois fatores, valid, desbloque, cadastr"
        ),
        ask=(
            "insira, introduz, digit, use, utiliz, escrev, seguinte, abaixo, a seguir, "
            "aqui esta, copi, informe"
        ),
        limit=(
            "expira, valid, minutos, hora, nao compart, ninguem, ignor, nao solicit, "
            "nao pediu, nunca"
        ),
        other=(
            "pedido, encomenda, fatura, nota fiscal, recibo, bilhete, ingresso, rastrei, "
            "rastream, envio, entrega, pacote, telefone, =tel, ligue, celular, telemovel, "
            "cliente, referencia, valor, total, preco, montante, codigo postal, =cep, erro, "
            "=nif, =cpf, =cnpj, =iban, numero da conta, socio, contrato, serie, versao, "
            "artigo, produto, quantidade, pagina, terminad, final, cartao, rua, avenida, "
            "quarto, desde, transacao, pagamento, protocolo, chamado, processo, saldo, pontos, "
            "boleto, agencia"
        ),
        gift=(
            "desconto, promocion, promocao, cupom, cupao, presente, vale, oferta, resgat, "
            "poupe, economiz"
        ),
        standing=(
            "senha, palavra passe, nome de usuario, nome de utilizador, codigos de backup, "
            "codigos de recuperacao"
        ),
        event=(
            "reuniao, reserva, voo, viagem, hotel, chegada, partida, evento, consulta, "
            "embarque, hospede, estadia"
        ),
        common=(
            "o, a, os, as, de, que, e, em, um, uma, seu, sua, para, por, com, nao, se, este, "
            "esta, ola, obrigado, voce, do, da, no, na, foi, ao, caso"
        ),
    ),
    "fr": Words(
        code=(
            "ces chiffres, chiffres suivants, numero suivant, ~code, =pin, usage unique, "
            "mot de passe temporaire a usage, cle d'acces, cle temporaire, "
            "numero de verification, cle de securite"
        ),
        purpose=(
            "verif, confirm, connex, connect, acces, securit, inscri, reinitialis, recuper, "
            "activ, authentif, identit, compte, deux etapes, deux facteurs, valid, double, "
            "deverrouill, identifi, autoris"
        ),
        ask=(
            "entrez, entrer, saisi, utilis, suivant, ci dessous, ci apres, voici, tapez, copi, "
            "renseign, inser, ci dessus"
        ),
        limit=(
            "expir, valable, valide, minutes, heure, ne partag, ne communiqu, jamais, "
            "personne, ignor, pas demand, l'origine"
        ),
        other=(
            "commande, facture, recu, billet, ticket, suivi, colis, livraison, expedition, "
            "telephone, =tel, appel, portable, client, reference, =ref, montant, total, prix, "
            "somme, code postal, =cp, erreur, =siret, =siren, =tva, =rcs, =iban, "
            "numero de compte, adherent, contrat, serie, version, article, produit, quantite, "
            "page, se terminant, finissant, carte, rue, avenue, etage, chambre, depuis, "
            "transaction, paiement, dossier, solde, points, codes postaux, code barre, "
            "code source, code erreur, boulevard"
        ),
        gift=(
            "promo, reduction, cadeau, bon d'achat, coupon, remise, offre, parrain, profit, "
            "economis, code avantage"
        ),
        standing=(
            "mot de passe, mots de passe, nom d'utilisateur, codes de secours, "
            "codes de recuperation, identifiant"
        ),
        event=(
            "reunion, reservation, vol, voyage, hotel, arrivee, depart, evenement, "
            "rendez vous, embarquement, sejour"
        ),
        common=(
            "le, la, les, de, des, du, et, vous, votre, vos, pour, dans, un, une, ce, cette, "
            "est, pas, ne, sur, avec, bonjour, merci, par, que, nous, si, au, a, ete, notre"
        ),
    ),
    "it": Words(
        code=(
            "queste cifre, seguenti cifre, seguente numero, codic, =pin, monouso, uso singolo, "
            "numero di verifica, password usa e getta, chiave di accesso, "
            "password temporanea monouso"
        ),
        purpose=(
            "verific, conferm, access, sicurezza, registr, reimpost, recuper, attiv, autentic, "
            "identita, account, due passaggi, due fattori, valid, login, sblocc, autorizz, "
            "ripristin"
        ),
        ask=(
            "inserisc, inserire, usa, utilizz, digit, seguente, di seguito, sotto, ecco, "
            "copia, immett"
        ),
        limit=(
            "scad, valid, minuti, ora, ore, non condivid, nessuno, ignor, non hai richiest, mai"
        ),
        other=(
            "ordine, fattura, ricevuta, biglietto, ticket, tracciam, spedizion, consegna, "
            "pacco, telefono, =tel, chiam, cellulare, cliente, riferimento, importo, totale, "
            "prezzo, codice postale, =cap, errore, =p.iva, partita iva, codice fiscale, =iban, "
            "numero di conto, socio, contratto, serie, versione, articolo, prodotto, quantita, "
            "pagina, che termina, termina con, carta, via, piazza, piano, camera, dal, "
            "transazione, pagamento, pratica, saldo, punti, codice a barre"
        ),
        gift="sconto, promo, coupon, buono, regalo, offert, riscatt, risparmi",
        standing=(
            "password, nome utente, codici di backup, codici di recupero, codici di ripristino"
        ),
        event=(
            "riunione, prenotazion, volo, viaggio, hotel, arrivo, partenza, evento, "
            "appuntamento, imbarco, ospite, soggiorno"
        ),
        common=(
            "il, lo, la, i, gli, le, di, che, e, un, una, tuo, tua, per, con, non, in, del, "
            "della, se, questo, questa, ciao, grazie, hai, ha, sono, da, al, alla, stato"
        ),
    ),
    "ro": Words(
        code=(
            "=cod, codul, codului, coduri, =pin, unica folosinta, parola unica, de unica, "
            "numarul de verificare"
        ),
        purpose=(
            "verific, confirm, autentific, conect, acces, securit, inregistr, reset, recuper, "
            "activ, identit, cont, doi pasi, doi factori, valid, logare, deblo"
        ),
        ask="introdu, folos, utiliz, urmator, mai jos, iata, copi, tasta",
        limit=(
            "expir, valabil, minute, ora, ore, nu distribui, nu il, nu-l, nimeni, ignor, "
            "nu ai solicit, nu ati solicit"
        ),
        other=(
            "comand, factur, chitant, bilet, tichet, urmarire, colet, livrare, expedier, telefon, "
            "=tel, sunati, client, referint, suma, total, pret, cod postal, codul postal, "
            "eroare, =cui, =iban, =cnp, contract, serie, versiun, articol, produs, cantitat, "
            "pagina, terminat, card, strada, =str, etaj, camera, din, tranzact, plata, dosar, "
            "sold, puncte, awb"
        ),
        gift="reducere, promo, cupon, voucher, cadou, oferta",
        standing="parola, parole, nume de utilizator, coduri de rezerva, coduri de recuperare",
        event=(
            "intalnire, sedint, rezervar, zbor, calatori, hotel, sosire, plecare, eveniment, "
            "programar"
        ),
        common=(
            "si, de, la, cu, pe, in, un, o, sau, nu, este, pentru, din, va, dumneavoastra, "
            "tau, ta, acest, aceasta, daca, buna, multumim, ai, ati, sa, se, fost, dvs"
        ),
    ),
    "ca": Words(
        code="codi, =pin, un sol us, clau d'acces",
        purpose=(
            "verific, confirm, inici de sessio, iniciar sessio, acces, seguretat, registr, "
            "restabl, recuper, activ, autentic, identitat, compte, valid"
        ),
        ask="introdu, utilitz, escri, seguent, a continuacio, aqui, copi, feu servir",
        limit=(
            "caduc, expira, valid, minuts, hora, no compart, ningu, ignor, no heu sol, no has sol"
        ),
        other=(
            "comanda, factura, rebut, bitllet, seguiment, enviament, paquet, telefon, client, "
            "referencia, import, total, preu, codi postal, error, versio, article, quantitat, "
            "targeta, carrer"
        ),
        gift="descompte, promo, cupo, regal, oferta",
        standing="contrasenya, nom d'usuari, codis de recuperacio",
        event="reunio, reserva, vol, viatge, hotel, esdeveniment",
        common=(
            "el, la, els, les, de, que, i, en, un, una, teu, teva, vostre, per, amb, no, es, "
            "si, aquest, aquesta, hola, gracies, s'ha, al"
        ),
    ),
    "gl": Words(
        code="codigo, =pin, un so uso",
        purpose=(
            "verific, confirm, iniciar sesion, acceso, seguridade, rexistr, restabl, recuper, "
            "activ, autentic, identidade, conta"
        ),
        ask="introduc, utiliz, escrib, seguinte, a continuacion, aqui",
        limit="caduca, valido, minutos, hora, non compart, ninguen, ignor",
        other=(
            "pedido, factura, recibo, seguimento, envio, paquete, telefono, cliente, "
            "referencia, importe, prezo, codigo postal"
        ),
        gift="desconto, cupon, agasallo, oferta",
        standing="contrasinal, nome de usuario",
        common=(
            "o, a, os, as, de, que, e, en, unha, teu, tua, seu, para, por, con, non, se, este, "
            "esta, ola, grazas"
        ),
    ),
}
