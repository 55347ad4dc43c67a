"""English, which also stands in mails of every other language."""

from oncebox.mail.codewords.words import Words

TABLE = {
    "en": Words(
        code=(
            "following phrase, this phrase, login phrase, these digits, following digits, "
            "following number, this number, digits below, number below, code, ~passcode, "
            "verifycode, authcode, logincode, securitycode, smscode, =otp, =otps, "
            "one time pass, one time pin, =pin, one time number, single use pass, "
            "verification number, one time key, =totp, =2fa, =mfa, one time token, passphrase, "
            "security number, authentication number, dynamic pass, verification pin, =tan, "
            "=tac, id code, "
            "access token, verification token, confirmation token, login token, sign in token, "
            "signin token, security token, authentication token, auth token, following token, "
            "this token, token below, token is, token:"
        ),
        purpose=(
            "verif, confirm, authenticat, log in, login, sign in, signin, sign up, signup, "
            "signing, logging, security, secure, activat, reset, recover, registration, "
            "register, identity, access, two factor, two step, 2 step, one time, temporary, "
            "unlock, magic, approve, authoris, authoriz, validat, account deletion, "
            "your account, device, passwordless"
        ),
        ask=(
            "enter, use, using, type, copy, paste, provide, input, following, below, here is, "
            "here's, this is your, =is, submit, is your, requested, insert, =above"
        ),
        limit=(
            "expir, valid, minute, =min, =mins, hour, do not share, don't share, never share, "
            "not share, keep this, if you did not, if you didn't, didn't request, not request, "
            "ignore this, anyone, nobody, will never ask, safely ignore, one use, used once"
        ),
        other=(
            "wi fi, wifi, wlan, wireless, =pr, =mr, merge request, pipeline, =job, unicode, "
            "vscode, encod, decod, codex, codec, coder, coding, zipcode, geocode, shortcode, "
            "order, invoice, receipt, ticket, tracking, track, parcel, package, shipment, "
            "shipping, phone, =tel, =call, =fax, mobile number, customer, client number, case, "
            "reference, =ref, request id, transaction, payment, amount, total, price, balance, "
            "booking ref, zip, postal, postcode, ~barcode, qr code, error, status code, "
            "exit code, =smtp, http status, response code, source code, dress code, "
            "country code, area code, sort code, swift, =iban, =bic, =vat, tax, "
            "account number, account no, account id, user id, member, membership, "
            "policy number, contract, serial, model, version, release, build, =sku, item, "
            "product, quantity, =qty, page, issue, card, ending in, ending with, ends in, "
            "street, suite, room, floor, apartment, =apt, =po box, p.o. box, =ip, browser, "
            "=id, since, copyright, founded, colour, color, commit, pull request, bug, "
            "license key, licence key, invoice number, confirmation of order, statement, "
            "calorie, steps, points, miles, users, people, visitors, subscribers, followers, "
            "views, likes, downloads, size, port, batch, lot, section, article, chapter, isbn, "
            "issn, code of conduct, code review, employee, student, patient, license number, "
            "plate, gate, seat, row, case number, employee id, unsubscribe, newsletter, "
            "diagnostic, dept, registration number, registered number, company number, "
            "registered in, device id, incident, meter, pickup, collection code, company no, "
            "trial, event code, course code, class code, product code, item code, style code, "
            "colour code, color code, sort by, locker number, donation, anti phishing, "
            "antiphishing, phishing, delivery pin, delivery code, purchase code, "
            "door code, gate code"
        ),
        gift=(
            "coupon, voucher, promo, discount, gift, percent off, =off, checkout, rebate, "
            "referral, refer a friend, invite code, offer, deal, sale, save, shop now, redeem, "
            "loyalty, cashback, credit, free shipping, bonus, invite friends, "
            "invite your friends, with friends, with your friends"
        ),
        standing=(
            "password, your username, user name, username, passwort, initial pass, "
            "api key, secret key, master key, license, licence, setup key, recovery codes, "
            "backup codes, backup code, recovery keys"
        ),
        event=(
            "meeting, webinar, conference, dial in, join by, calendar, flight, reservation, "
            "booking, itinerary, check in, check out, hotel, confirmation number, departure, "
            "arrival, boarding, passenger, appointment, concert, your visit, traveler, booked"
        ),
        common=(
            "the, and, you, your, to, of, for, this, is, in, we, with, from, on, please, if, "
            "have, was, are, it, thanks, thank, hi, hello, not, or, by, our"
        ),
    ),
}
