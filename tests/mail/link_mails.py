"""Mails with links, in many languages: what is meant in each, and what is beside it."""

# ruff: noqa: E501, RUF001 - words of other alphabets, a mail to a line

import msgspec

T = "q7Zx9Lm2Vb4Kt8Rw1Ns5"
U = "1f8e2c44-9b1d-4a57-8f0e-6a2c9d3b7e10"
H = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"


class Mail(msgspec.Struct, frozen=True):
    """A mail, and the link that it is about; none: it is about none."""

    name: str
    subject: str
    body: str
    link: str | None


def _button(label: str, url: str) -> str:
    return f'<table><tr><td bgcolor="#3366cc"><a href="{url}" style="color:#fff">{label}</a></td></tr></table>'


def _mail(name: str, subject: str, lead: str, label: str, url: str) -> Mail:
    """Return a mail with one button, and a footer that is nobody's business."""
    foot = (
        '<p><a href="https://acme.io/privacy">§</a> <a href="https://acme.io/u/'
        f'unsubscribe?k={H}">×</a> <a href="https://social.net/acme">●</a></p>'
    )
    return Mail(name, subject, f"<p>{lead}</p>{_button(label, url)}{foot}", url)


_V = f"https://acme.io/a/{T}"  # an address that says nothing
#: a button whose address says nothing but that it was made for one person: the words decide
BUTTONS = [
    _mail(lang, subject, lead, label, _V)
    for lang, subject, lead, label in (
        ("en", "Welcome", "Thanks for signing up.", "Verify my email"),
        ("en-magic", "Your sign-in link", "Use the button to sign in.", "Log in to Acme"),
        ("en-invite", "Ann invited you", "Ann asked you to join the team.", "Accept invitation"),
        ("en-unlock", "Account locked", "Too many attempts.", "Unlock account"),
        ("en-delete", "Delete your account", "You asked for it.", "Confirm deletion"),
        ("en-subscribe", "Please confirm", "One more step.", "Yes, subscribe me to this list"),
        ("es", "Bienvenida", "Gracias por registrarte.", "Confirmar mi correo"),
        ("es-reset", "Contraseña", "Has olvidado tu contraseña.", "Restablecer contraseña"),
        ("pt", "Bem-vindo", "Obrigado por se cadastrar.", "Confirmar e-mail"),
        ("pt-reset", "Senha", "Recebemos o seu pedido.", "Redefinir senha"),
        ("fr", "Bienvenue", "Merci de votre inscription.", "Confirmer mon adresse"),
        ("fr-magic", "Connexion", "Voici votre lien.", "Se connecter"),
        ("de", "Willkommen", "Danke für die Anmeldung.", "E-Mail-Adresse bestätigen"),
        ("de-reset", "Passwort", "Du hast es vergessen.", "Passwort zurücksetzen"),
        ("it", "Benvenuto", "Grazie.", "Conferma il tuo indirizzo"),
        ("it-invite", "Invito", "Anna ti ha invitato.", "Accetta l'invito"),
        ("nl", "Welkom", "Bedankt.", "Bevestig je e-mailadres"),
        ("pl", "Witamy", "Dziękujemy.", "Potwierdź adres e-mail"),
        ("cs", "Vítejte", "Děkujeme.", "Ověřit e-mail"),
        ("sk", "Vitajte", "Ďakujeme.", "Potvrdiť e-mail"),
        ("tr", "Hoş geldiniz", "Teşekkürler.", "E-postamı doğrula"),
        ("ru", "Добро пожаловать", "Спасибо за регистрацию.", "Подтвердить почту"),
        ("uk", "Ласкаво просимо", "Дякуємо.", "Підтвердити пошту"),
        ("bg", "Добре дошли", "Благодарим.", "Потвърдете имейла"),
        ("sr", "Добро дошли", "Хвала.", "Потврди адресу"),
        ("ar", "مرحبا", "شكرا لتسجيلك.", "تأكيد البريد الإلكتروني"),
        ("he", "ברוכים הבאים", "תודה.", "אימות כתובת הדואר"),
        ("fa", "خوش آمدید", "سپاس.", "تأیید ایمیل"),
        ("ur", "خوش آمدید", "شکریہ۔", "ای میل کی تصدیق کریں"),
        ("hi", "स्वागत है", "धन्यवाद।", "ईमेल सत्यापित करें"),
        ("bn", "স্বাগতম", "ধন্যবাদ।", "ইমেল যাচাই করুন"),
        ("ta", "வரவேற்கிறோம்", "நன்றி.", "மின்னஞ்சலை உறுதிப்படுத்தவும்"),
        ("zh", "欢迎", "感谢注册。", "验证邮箱"),
        ("zh-TW", "歡迎", "感謝註冊。", "重設密碼"),
        ("ja", "ようこそ", "ご登録ありがとうございます。", "メールアドレスを確認する"),
        ("ko", "환영합니다", "감사합니다.", "이메일 인증하기"),
        ("vi", "Chào mừng", "Cảm ơn bạn.", "Xác nhận email"),
        ("vi-bare", "Chao mung", "Cam on ban.", "Xac nhan email"),
        ("id", "Selamat datang", "Terima kasih.", "Verifikasi email"),
        ("ms", "Selamat datang", "Terima kasih.", "Sahkan e-mel"),
        ("th", "ยินดีต้อนรับ", "ขอบคุณ", "ยืนยันอีเมล"),
        ("sv", "Välkommen", "Tack.", "Bekräfta din e-post"),
        ("da", "Velkommen", "Tak.", "Bekræft din e-mail"),
        ("nb", "Velkommen", "Takk.", "Bekreft e-posten"),
        ("fi", "Tervetuloa", "Kiitos.", "Vahvista sähköposti"),
        ("el", "Καλώς ήρθατε", "Ευχαριστούμε.", "Επιβεβαίωση email"),
        ("ro", "Bun venit", "Mulțumim.", "Confirmă adresa"),
        ("hu", "Üdvözöljük", "Köszönjük.", "E-mail megerősítése"),
        ("hr", "Dobrodošli", "Hvala.", "Potvrdi adresu"),
        ("sl", "Dobrodošli", "Hvala.", "Potrdi naslov"),
        ("lt", "Sveiki", "Ačiū.", "Patvirtinti el. paštą"),
        ("lv", "Sveicināti", "Paldies.", "Apstiprināt e-pastu"),
        ("et", "Tere", "Aitäh.", "Kinnita e-post"),
        ("ca", "Benvinguda", "Gràcies.", "Confirmar el correu"),
        ("eu", "Ongi etorri", "Eskerrik asko.", "Egiaztatu helbidea"),
        ("gl", "Benvida", "Grazas.", "Confirmar enderezo"),
        ("is", "Velkomin", "Takk.", "Staðfesta netfang"),
        ("sq", "Mirë se vini", "Faleminderit.", "Verifiko emailin"),
        ("ka", "მოგესალმებით", "გმადლობთ.", "ელფოსტის დადასტურება"),
        ("hy", "Բարի գալուստ", "Շնորհակալություն.", "Հաստատել էլ. փոստը"),
        ("kk", "Қош келдіңіз", "Рахмет.", "Поштаны растау"),
        ("sw", "Karibu", "Asante.", "Thibitisha barua pepe"),
        ("tl", "Maligayang pagdating", "Salamat.", "Kumpirmahin ang email"),
        ("af", "Welkom", "Dankie.", "Bevestig e-posadres"),
    )
]
#: no word is known: layout, address and secret decide
WORDLESS = [
    _mail(name, "Xi wo", "Lu mi ta wo xi.", "Qo xa wu", url)
    for name, url in (
        ("path", f"https://acme.io/verify-email/{T}"),
        ("parameter", f"https://acme.io/x?confirmation_token={T}"),
        ("camel", f"https://acme.io/resetPassword?id=7&t={T}"),
        ("action", f"https://acme.io/index.php?action=activate&u=77&k={T}"),
        ("uuid", f"https://acme.io/invitations/{U}"),
        ("hash", f"https://acme.io/users/unlock/{H}"),
        ("fragment", f"https://acme.io/#/auth/magic/{T}"),
        ("fragment-token", f"https://acme.io/app#token={T}&type=signup"),
        (
            "jwt",
            "https://acme.io/v/confirm?jwt=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN",
        ),
        ("signed", f"https://acme.io/email/verify/42/{H}?expires=1763251200&signature={H}"),
        ("slash", "https://acme.io/login/confirm.php?data=kD82jsKq01LmZ/ann"),
        ("local", f"http://localhost:3000/auth/verify?token={T}"),
        (
            "nested",
            f"https://api.acme.io/auth/v1/verify?token={T}&redirect_to=https://acme.io/welcome",
        ),
    )
]
#: plain text, and what it does to links
PLAIN = [
    Mail(
        "own line",
        "Reset",
        f"Reset your password:\n\nhttps://acme.io/r/{T}\n",
        f"https://acme.io/r/{T}",
    ),
    Mail(
        "full stop",
        "Hi",
        f"To confirm, go to https://acme.io/confirm/{T}.",
        f"https://acme.io/confirm/{T}",
    ),
    Mail(
        "brackets",
        "Hi",
        f"Confirm (https://acme.io/confirm/{T}) now",
        f"https://acme.io/confirm/{T}",
    ),
    Mail(
        "angles", "Hi", f"Confirm <https://acme.io/confirm/{T}> now", f"https://acme.io/confirm/{T}"
    ),
    Mail("markdown", "Hi", f"[Confirm](https://acme.io/c/{T})", f"https://acme.io/c/{T}"),
    Mail("bold", "Hi", f"Confirm: **https://acme.io/confirm/{T}**", f"https://acme.io/confirm/{T}"),
    Mail(
        "comma of Asia",
        "你好",
        f"请点击链接确认邮箱：https://acme.io/c/{T}，谢谢。",
        f"https://acme.io/c/{T}",
    ),
    Mail(
        "bracket of Asia",
        "確認",
        f"確認はこちら（https://acme.io/c/{T}）から",
        f"https://acme.io/c/{T}",
    ),
    Mail(
        "quotes", "Hi", f'Confirm at "https://acme.io/confirm/{T}"', f"https://acme.io/confirm/{T}"
    ),
    Mail(
        "balanced",
        "Hi",
        f"Confirm: https://acme.io/confirm/{T}_(a)",
        f"https://acme.io/confirm/{T}_(a)",
    ),
    Mail(
        "entity",
        "Hi",
        f"Confirm: https://acme.io/confirm?u=1&amp;token={T}",
        f"https://acme.io/confirm?u=1&token={T}",
    ),
    Mail("no scheme", "Hi", "Tap to verify your phone: v.acme.io/482913", "v.acme.io/482913"),
    Mail(
        "footnote",
        "Hi",
        f"Verify your email [1]\n\nBye\n\n[1] https://acme.io/verify?token={T}",
        f"https://acme.io/verify?token={T}",
    ),
    Mail(
        "underscore at its end",
        "Hi",
        f"Confirm: https://acme.io/confirm/{T}_",
        f"https://acme.io/confirm/{T}_",
    ),
    Mail(
        "ignored before",
        "Reset",
        f"If you did not ask for this, ignore this mail.\n\nhttps://acme.io/password/reset/{T}\n",
        f"https://acme.io/password/reset/{T}",
    ),
    Mail(
        "beside unsubscribe",
        "Hi",
        f"Confirm: https://acme.io/confirm/{T}\n\nUnsubscribe: https://acme.io/list/{H}",
        f"https://acme.io/confirm/{T}",
    ),
    Mail(
        "two of one secret",
        "Hi",
        f"Confirm: https://acme.io/confirm/{T}\nIn the app: https://app.acme.io/confirm/{T}",
        f"https://acme.io/confirm/{T}",
    ),
]


def _links(*pairs: tuple[str, str]) -> str:
    return "".join(f'<p><a href="{url}">{label}</a></p>' for label, url in pairs)


#: what stands beside the link that is meant, and carries a secret too
TRAPS = [
    Mail(name, "Hello", f"<p>Welcome.</p>{_button('Confirm email', _V)}{_links((label, url))}", _V)
    for name, label, url in (
        ("unsubscribe", "Unsubscribe", f"https://acme.io/s/{H}"),
        ("abmelden", "Abmelden", f"https://acme.io/s/{H}"),
        ("desabonner", "Se désabonner", f"https://acme.io/s/{H}"),
        ("退订", "退订", f"https://acme.io/s/{H}"),
        ("配信停止", "配信停止はこちら", f"https://acme.io/s/{H}"),
        ("отписаться", "Отписаться", f"https://acme.io/s/{H}"),
        ("not me", "This wasn't me", f"https://acme.io/s/{H}"),
        ("report", "Report this mail", f"https://acme.io/s/{H}"),
        ("secure", "Secure your account", f"https://acme.io/s/{H}"),
        ("new one", "Request a new link", f"https://acme.io/s/{H}"),
        ("preferences", "Email preferences", f"https://acme.io/s/{H}"),
        ("browser", "View in browser", f"https://acme.io/s/{H}"),
        ("help", "Help center", f"https://acme.io/s/{H}"),
        ("address", "Qo xa", f"https://acme.io/unsubscribe/{H}"),
        ("picture", "Qo xa", f"https://acme.io/{H}.png"),
    )
] + [
    Mail(
        "decline",
        "Ann invited you",
        _button("Accept", f"https://acme.io/invites/{T}/accept")
        + _links(("Decline", f"https://acme.io/invites/{T}/decline")),
        f"https://acme.io/invites/{T}/accept",
    ),
    Mail(
        "cancel",
        "Confirm your new address",
        _button("Confirm", f"https://acme.io/email/{T}")
        + _links(("Cancel this change", f"https://acme.io/email/{U}")),
        f"https://acme.io/email/{T}",
    ),
    Mail(
        "here",
        "Hello",
        f"<p>To reset your password, <a href='https://acme.io/p/{T}'>click here</a>.</p><p>If you did not ask for it, <a href='https://acme.io/p/{U}'>click here</a>.</p>",
        f"https://acme.io/p/{T}",
    ),
    Mail(
        "picture button",
        "Hello",
        f"<a href='https://acme.io/p/{T}'><img alt='Verify email'></a><a href='https://acme.io/q/{U}'><img alt='Facebook'></a>",
        f"https://acme.io/p/{T}",
    ),
    Mail(
        "spelled out",
        "Xi wo",
        f"{_button('Qo xa', f'https://acme.io/login/{T}')}<p>https://acme.io/login/{T}</p>{_links(('Wu', f'https://acme.io/n/{U}'))}",
        f"https://acme.io/login/{T}",
    ),
    Mail(
        "hidden",
        "Hello",
        f"<div style='display:none'><a href='https://evil.io/confirm/{U}'>Confirm email</a></div>{_button('Confirm email', _V)}",
        _V,
    ),
]
#: mails without such a link
NONE = [
    Mail("home", "Verify", _button("Verify", "https://acme.io/"), None),
    Mail("login page", "New sign-in", _button("Sign in", "https://acme.io/login"), None),
    Mail(
        "reset page",
        "Password changed",
        _links(("Reset your password", "https://acme.io/password/reset")),
        None,
    ),
    Mail(
        "if not you",
        "Your password was changed",
        f"<p>If this wasn't you, <a href='https://acme.io/reset/{T}'>reset your password</a> now.</p>",
        None,
    ),
    Mail(
        "question",
        "New sign-in",
        f"<p>Was this not you? <a href='https://acme.io/secure/{T}'>Secure your account</a></p>",
        None,
    ),
    Mail(
        "newsletter",
        "This week",
        _links(
            *(
                (label, f"https://acme.io/n/{label}?e={n}a9f3c{n}d")
                for n, label in enumerate(("Read", "Shop", "Blog", "Save", "More", "Verify"))
            )
        ),
        None,
    ),
    Mail(
        "order", "Order confirmed", _button("Track your order", f"https://acme.io/orders/{T}"), None
    ),
    Mail(
        "shared file",
        "Ann shared a file",
        _button("Open in Docs", f"https://docs.acme.io/d/{T}/edit"),
        None,
    ),
    Mail("comment", "New comment", _button("View comment", f"https://acme.io/t/{T}"), None),
    Mail(
        "unsubscribe alone",
        "News",
        f"<p>News.</p><p>To unsubscribe, <a href='https://acme.io/x/{T}'>click here</a>.</p>",
        None,
    ),
    Mail(
        "delivery",
        "Your parcel",
        _links(("Confirm delivery address", f"https://ship.io/track/{T}")),
        None,
    ),
    Mail(
        "other schemes",
        "Verify",
        _links(
            ("Verify", "javascript:verify('x')"),
            ("Confirm", "mailto:a@b.c"),
            ("Confirm", f"data:text/html,{T}"),
        ),
        None,
    ),
    Mail(
        "shows another",
        "Verify",
        f"<a href='https://evil.example.net/confirm/'>https://acme.io/confirm/{T}</a>",
        None,
    ),
    Mail("nothing", "Hello", "<p>Your code is 482913.</p>", None),
]


def _tracked(number: int) -> str:
    return f"https://u7.ct.post.io/ls/click?upn={H}{number}{T}{number}{H}"


#: mails as they are sent: several links, several sentences
WHOLE = [
    Mail(
        "a weblog",
        "[Acme] Password Reset",
        "Someone has requested a password reset for the following account:\n\nSite Name: Acme\n\n"
        "Username: ann\n\nIf this was a mistake, ignore this email and nothing will happen.\n\n"
        "To reset your password, visit the following address:\n\n"
        f"https://acme.io/wp-login.php?action=rp&key={T}&login=ann&wp_lang=en_US\n\n"
        "This request originated from the IP address 198.51.100.7.",
        f"https://acme.io/wp-login.php?action=rp&key={T}&login=ann&wp_lang=en_US",
    ),
    Mail(
        "a realm",
        "E-Mail verifizieren",
        "Jemand hat ein Acme-Konto mit dieser E-Mail-Adresse erstellt. Falls Sie das waren, dann "
        "klicken Sie auf den folgenden Link, um die E-Mail-Adresse zu verifizieren\n\n"
        f"https://id.acme.io/realms/a/login-actions/action-token?key={T}.{H}&client_id=account\n\n"
        "Dieser Link wird in 5 Minuten ablaufen.\n\nFalls Sie dieses Konto nicht erstellt haben, "
        "dann können sie diese Nachricht ignorieren.",
        f"https://id.acme.io/realms/a/login-actions/action-token?key={T}.{H}&client_id=account",
    ),
    Mail(
        "a forum",
        "Confirm your new account",
        "Welcome to Acme!\n\nClick the following link to confirm and activate your new account:\n"
        f"https://forum.acme.io/u/activate-account/{H}\n\nIf the above link is not clickable, try "
        "copying and pasting it into the address bar of your web browser.\n\n"
        "[Visit the forum](https://forum.acme.io)",
        f"https://forum.acme.io/u/activate-account/{H}",
    ),
    Mail(
        "an invitation with a way out",
        "Ann invited you to join Acme",
        _button("Join now", f"https://git.acme.io/-/invites/{T}?invite_type=initial_email")
        + _links(
            ("decline", f"https://git.acme.io/-/invites/{T}/decline"),
            ("Acme", "https://git.acme.io/acme"),
            ("Manage all notifications", "https://git.acme.io/-/profile/notifications"),
            ("Help", "https://git.acme.io/help"),
        ),
        f"https://git.acme.io/-/invites/{T}?invite_type=initial_email",
    ),
    Mail(
        "all links counted",
        "Action required",
        _links(("<img alt='Acme'>", _tracked(1)))
        + _button("Verify email address", _tracked(2))
        + _links(
            ("Help center", _tracked(3)), ("Privacy", _tracked(4)), ("Unsubscribe", _tracked(5))
        ),
        _tracked(2),
    ),
    Mail(
        "a counted newsletter",
        "Your weekly digest",
        _links(
            ("Log in to read", _tracked(1)),
            ("Open the article", _tracked(2)),
            ("Join the webinar", _tracked(3)),
            ("Unsubscribe", _tracked(4)),
        ),
        None,
    ),
    Mail(
        "a fallback below the button",
        "Bestätige deine E-Mail-Adresse",
        _button("E-Mail bestätigen", _V)
        + f"<p>Falls der Button nicht funktioniert, kopiere den folgenden Link in deinen Browser:</p><p>{_V}</p>"
        + "<p>Wenn du das nicht warst, ignoriere diese Nachricht.</p>",
        _V,
    ),
    Mail(
        "paste it in the browser",
        "Reset",
        _button("Reset password", _V)
        + f"<p>If you did not request a password reset, no further action is required.</p>"
        f"<p>If you're having trouble, copy and paste the URL below into your web browser: <a href='{_V}'>{_V}</a></p>"
        + _links(("Contact us", "https://acme.io/contact")),
        _V,
    ),
    Mail(
        "terms before the button",
        "Willkommen",
        f"<p>By confirming you accept our <a href='https://acme.io/terms?v={H}'>terms of service</a>.</p>"
        + _button("Confirm", _V),
        _V,
    ),
    Mail(
        "a blocked account",
        "Cuenta bloqueada",
        "Su cuenta ha sido bloqueada por demasiados intentos, haga clic en el siguiente enlace para "
        f"desbloquearla: https://acme.io/users/unlock?unlock_token={T}",
        f"https://acme.io/users/unlock?unlock_token={T}",
    ),
    Mail(
        "a code beside a link",
        "482913 is your code",
        f"<h1>482913</h1><p>Or <a href='https://acme.io/verify?code=482913&flow={U}'>click here to verify</a>.</p>",
        f"https://acme.io/verify?code=482913&flow={U}",
    ),
    Mail(
        "a page to type the code on",
        "Your code",
        "<p>Enter 482913 at <a href='https://acme.io/verify'>acme.io/verify</a>.</p>",
        None,
    ),
    Mail(
        "a new sign-in",
        "New sign-in to your account",
        "<p>We noticed a new sign-in. If this was you, you can ignore this mail.</p>"
        "<p>If you don't recognise it, <a href='https://acme.io/account/security?rfn="
        f"{T}'>check activity</a> and change your password.</p>",
        None,
    ),
    Mail(
        "an address that was changed",
        "Your email was changed",
        f"<p>If you did not make this change, <a href='https://acme.io/email/revert/{T}'>undo it</a>.</p>",
        None,
    ),
    Mail(
        "two languages",
        "Confirm / Confirmer",
        _button("Confirm email", f"{_V}?lang=en") + _button("Confirmer l'adresse", f"{_V}?lang=fr"),
        f"{_V}?lang=en",
    ),
    Mail(
        "an event",
        "Invitation: meeting on Monday",
        _links(
            ("Yes", f"https://cal.io/event?action=RESPOND&eid={T}&rst=1"),
            ("Maybe", f"https://cal.io/event?action=RESPOND&eid={T}&rst=3"),
        ),
        None,
    ),
    Mail(
        "a subscription",
        "確認のお願い",
        f"<p>メールマガジンの登録を完了するには、<a href='https://acme.io/s/{T}'>こちら</a>をクリックしてください。</p>"
        f"<p>心当たりのない場合は<a href='https://acme.io/x/{U}'>こちら</a></p>",
        f"https://acme.io/s/{T}",
    ),
    Mail(
        "lines that end anywhere",
        "Acme email address confirmation",
        "Someone, probably you, from IP address 198.51.100.7, has registered an account with this\n"
        "email address.\n\nTo confirm that this account really does belong to you and activate\n"
        "email features, open this link in your browser:\n\n"
        f"https://acme.io/wiki/Special:ConfirmEmail/{H}\n\n"
        "If you did *not* register the account, follow this link\nto cancel the email address "
        f"confirmation:\n\nhttps://acme.io/wiki/Special:InvalidateEmail/{H[::-1]}\n",
        f"https://acme.io/wiki/Special:ConfirmEmail/{H}",
    ),
    Mail(
        "labels on lines of their own",
        "Hello",
        f"Confirm your account\nhttps://acme.io/a/{T}\nUnsubscribe\nhttps://acme.io/a/{U}\n",
        f"https://acme.io/a/{T}",
    ),
    Mail(
        "a secret on the next page",
        "Sign in",
        _button("Sign in", f"https://acme.io/login?next=%2Fmagic%3Ftoken%3D{T}"),
        f"https://acme.io/login?next=%2Fmagic%3Ftoken%3D{T}",
    ),
    Mail(
        "a link in a link",
        "Sign in",
        _button(
            "Sign in", f"https://acme.link.io/?link=https%3A%2F%2Facme.io%2Fauth%3FoobCode%3D{T}"
        ),
        f"https://acme.link.io/?link=https%3A%2F%2Facme.io%2Fauth%3FoobCode%3D{T}",
    ),
    Mail(
        "a numbered page", "Verify", _button("Verify your email", "https://acme.io/verify2"), None
    ),
    Mail("a year", "Verify", _button("Verify your email", "https://acme.io/verify/2026"), None),
    Mail(
        "for those who did not sign in",
        "New login",
        "<p>We noticed a new login.<br>If this was you, feel free to ignore this message.<br>But if this "
        "wasn't you, please act at once to protect your account:<br>\U0001f449 <a href='https://acme.io/"
        f"reset-password?token={T}'>Click here to reset your password</a></p>",
        None,
    ),
    Mail(
        "giriş bildirimi",
        "Yeni giriş",
        f"<p>Bu işlemi siz yapmadıysanız <a href='https://acme.io/reset/{T}'>şifrenizi sıfırlayın</a>.</p>",
        None,
    ),
    Mail(
        "bu talebi siz yapmadıysanız",
        "Şifre Sıfırlama Talebi",
        "<p>Bu talebi siz yapmadıysanız, bu e-postayı dikkate almayın.</p>"
        + _button("Şifremi Yenile", _V),
        _V,
    ),
]

#: a button, and below it the link once more, for those whose button does not work
FALLBACKS = [
    Mail(
        lang,
        "Xi wo",
        _button("Qo xa", f"https://acme.io/verify/{T}")
        + f"<p>{lead} <a href='https://acme.io/verify/{T}'>https://acme.io/verify/{T}</a></p>",
        f"https://acme.io/verify/{T}",
    )
    for lang, lead in (
        ("en", "If the button didn't work, copy and paste this link into your web browser:"),
        (
            "en-2",
            "If you haven't clicked the button yet or cannot see it, open this in your browser:",
        ),
        ("en-3", "Button not working? Paste the following URL into your browser:"),
        (
            "de",
            "Falls der Button nicht angezeigt wird oder Sie nicht weitergeleitet werden, kopieren Sie folgenden Link in Ihren Browser:",
        ),
        (
            "fr",
            "Si le bouton ne fonctionne pas ou si vous n'arrivez pas à cliquer, copiez ce lien dans votre navigateur :",
        ),
        ("es", "Si el botón no funciona, copia y pega este enlace en tu navegador:"),
        ("pt", "Se o botão não funcionar, copie e cole este link no seu navegador:"),
        ("it", "Se il pulsante non funziona, copia e incolla questo link nel browser:"),
        ("nl", "Werkt de knop niet? Kopieer dan deze link naar je browser:"),
        ("pl", "Jeśli przycisk nie działa, skopiuj ten link i wklej go w przeglądarce:"),
        ("cs", "Pokud tlačítko nefunguje, zkopírujte tento odkaz do prohlížeče:"),
        ("ru", "Если кнопка не работает, скопируйте эту ссылку в браузер:"),
        ("uk", "Якщо кнопка не працює, скопіюйте це посилання у браузер:"),
        ("tr", "Buton çalışmıyorsa bu bağlantıyı tarayıcınıza yapıştırın:"),
        ("ar", "إذا لم يعمل الزر، انسخ هذا الرابط والصقه في المتصفح:"),
        ("he", "אם הכפתור אינו עובד, העתק את הקישור הזה לדפדפן:"),
        ("fa", "اگر دکمه کار نمی‌کند، این پیوند را در مرورگر خود کپی کنید:"),
        ("hi", "यदि बटन काम नहीं करता है, तो इस लिंक को अपने ब्राउज़र में कॉपी करें:"),
        ("zh", "如果按钮无法点击，请将以下链接复制到浏览器中打开："),
        ("ja", "ボタンが機能しない場合は、次のURLをブラウザにコピーしてください："),
        ("ko", "버튼이 작동하지 않으면 아래 링크를 브라우저에 복사하세요:"),
        ("vi", "Nếu nút không hoạt động, hãy sao chép liên kết này vào trình duyệt:"),
        ("id", "Jika tombol tidak berfungsi, salin tautan ini ke browser Anda:"),
        ("th", "หากปุ่มไม่ทำงาน ให้คัดลอกลิงก์นี้ไปวางในเบราว์เซอร์:"),
        ("sv", "Om knappen inte fungerar, kopiera länken till din webbläsare:"),
        ("da", "Hvis knappen ikke virker, så kopier dette link til din browser:"),
        ("nb", "Hvis knappen ikke fungerer, kopier denne lenken inn i nettleseren:"),
        ("fi", "Jos painike ei toimi, kopioi tämä linkki selaimeesi:"),
        ("el", "Αν το κουμπί δεν λειτουργεί, αντιγράψτε τον σύνδεσμο στο πρόγραμμα περιήγησης:"),
        ("ro", "Dacă butonul nu funcționează, copiați acest link în browser:"),
        ("hu", "Ha a gomb nem működik, másolja ezt a hivatkozást a böngészőbe:"),
    )
]
