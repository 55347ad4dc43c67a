"""More mails with links, each as one might be sent; the words are ours."""

# ruff: noqa: E501, RUF001 - words of other alphabets, a mail to a few lines

from tests.mail.link_mails import Mail

PROBES = [
    Mail(
        "an invitation to a workspace",
        "Join Acme on Chat",
        '<table><tr><td bgcolor="#36c"><a href="https://join.chat.io/t/acme/invite/enQtq7Zx9Lm2Vb4Kt8Rw1Ns5x77?x=x-p1" style="color:#fff">Join Now</a></td></tr></table><p><a href=\'https://chat.io/help\'>Help</a> <a href=\'https://chat.io/email-settings/x\'>Our Policies</a></p>',
        "https://join.chat.io/t/acme/invite/enQtq7Zx9Lm2Vb4Kt8Rw1Ns5x77?x=x-p1",
    ),
    Mail(
        "two ways to sign in",
        "Sign in to Acme",
        '<p>Click and confirm that you want to sign in to Acme.</p><table><tr><td bgcolor="#36c"><a href="https://acme.io/m/callback/email?token=q7Zx9Lm2Vb4Kt8Rw1Ns5&operation=login&state=acme&source=email" style="color:#fff">Sign in to Acme</a></td></tr></table><p>Or sign in using this link: <a href=\'https://acme.io/m/callback/email?token=q7Zx9Lm2Vb4Kt8Rw1Ns5&operation=login&state=acme&source=email-link\'>https://acme.io/m/callback/email</a></p>',
        "https://acme.io/m/callback/email?token=q7Zx9Lm2Vb4Kt8Rw1Ns5&operation=login&state=acme&source=email",
    ),
    Mail(
        "a double opt-in",
        "Confirm your subscription",
        '<p>Please confirm your subscription to our newsletter.</p><table><tr><td bgcolor="#36c"><a href="https://acme.us1.lists.io/subscribe/confirm?u=5a6b7c8d9e0f&id=1a2b3c4d5e&e=9f8e7d6c5b" style="color:#fff">Yes, subscribe me to this list.</a></td></tr></table><p>If you received this email by mistake, simply delete it.</p>',
        "https://acme.us1.lists.io/subscribe/confirm?u=5a6b7c8d9e0f&id=1a2b3c4d5e&e=9f8e7d6c5b",
    ),
    Mail(
        "a new device",
        "Please verify your device",
        "<p>Verification code: 482913</p><p>If you did not attempt to sign in, your password may be compromised. Visit <a href='https://acme.io/settings/security'>https://acme.io/settings/security</a> to create a new, strong password.</p>",
        None,
    ),
    Mail(
        "a counted button",
        "Verify Email Address for Acme",
        '<p>Hey ann,</p><p>Thanks for registering! Before we get started, we just need to confirm that this is you.</p><table><tr><td bgcolor="#36c"><a href="https://click.acme.io/ls/click?upn=q7Zx9Lm2Vb4Kt8Rw1Ns5q7Zx9Lm2Vb4Kt8Rw1Ns5q7Zx9Lm2Vb4Kt8Rw1Ns5q7Zx9Lm2Vb4Kt8Rw1Ns5q7Zx9Lm2Vb4Kt8Rw1Ns5q7Zx9Lm2Vb4Kt8Rw1Ns5q7Zx9Lm2Vb4Kt8Rw1Ns5q7Zx9Lm2Vb4Kt8Rw1Ns5" style="color:#fff">Verify Email</a></td></tr></table><p>Need help? <a href=\'https://support.acme.io\'>Contact our support team</a>. Want to give us feedback? <a href=\'https://feedback.acme.io\'>Let us know</a></p>',
        "https://click.acme.io/ls/click?upn=q7Zx9Lm2Vb4Kt8Rw1Ns5q7Zx9Lm2Vb4Kt8Rw1Ns5q7Zx9Lm2Vb4Kt8Rw1Ns5q7Zx9Lm2Vb4Kt8Rw1Ns5q7Zx9Lm2Vb4Kt8Rw1Ns5q7Zx9Lm2Vb4Kt8Rw1Ns5q7Zx9Lm2Vb4Kt8Rw1Ns5q7Zx9Lm2Vb4Kt8Rw1Ns5",
    ),
    Mail(
        "an address with a no in it",
        "Confirm your email",
        '<a href=\'https://acme.io/\'>Acme</a><table><tr><td bgcolor="#36c"><a href="https://acme.io/cgi-bin/confirm?cmd=_cem&nonce=q7Zx9Lm2Vb4Kt8Rw1Ns5&unsubscribe=0" style="color:#fff">Confirm Your Email</a></td></tr></table>',
        "https://acme.io/cgi-bin/confirm?cmd=_cem&nonce=q7Zx9Lm2Vb4Kt8Rw1Ns5&unsubscribe=0",
    ),
    Mail(
        "welcome no action",
        "Welcome to Acme",
        '<table><tr><td bgcolor="#36c"><a href="https://acme.io/welcome?utm_source=email&utm_campaign=onboarding_2024_q3" style="color:#fff">Get started</a></td></tr></table><p><a href=\'https://acme.io/docs\'>Docs</a></p>',
        None,
    ),
    Mail(
        "invoice",
        "Invoice 2024-11",
        '<table><tr><td bgcolor="#36c"><a href="https://pay.acme.io/i/acct_1A2b3C/test_q7Zx9Lm2Vb4Kt8Rw1Ns5" style="color:#fff">Pay invoice</a></td></tr></table>',
        None,
    ),
    Mail(
        "a meeting accepted",
        "Accepted: sync",
        "<p><a href='https://meet.io/abc-defg-hij'>Join meeting</a></p>",
        None,
    ),
    Mail(
        "a meeting with a password",
        "Ann is inviting you to a meeting",
        "<p>Join Zoom Meeting<br><a href='https://us02.meet.io/j/82345678901?pwd=aB3dE6gH9kLmN'>https://us02.meet.io/j/82345678901?pwd=aB3dE6gH9kLmN</a></p><p>Meeting ID: 823 4567 8901 Passcode: 482913</p>",
        None,
    ),
    Mail(
        "survey",
        "How did we do?",
        '<table><tr><td bgcolor="#36c"><a href="https://s.io/r/q7Zx9Lm2Vb4Kt8Rw1Ns5" style="color:#fff">Take the survey</a></td></tr></table>',
        None,
    ),
    Mail(
        "shipping",
        "Your package is on the way",
        '<table><tr><td bgcolor="#36c"><a href="https://t.io/p/q7Zx9Lm2Vb4Kt8Rw1Ns5" style="color:#fff">Track package</a></td></tr></table>',
        None,
    ),
    Mail(
        "social notif",
        "Bob mentioned you",
        '<table><tr><td bgcolor="#36c"><a href="https://s.io/n/?p=q7Zx9Lm2Vb4Kt8Rw1Ns5&mid=1f8e2c44-9b1d-4a57-8f0e-6a2c9d3b7e10" style="color:#fff">View post</a></td></tr></table><p><a href=\'https://s.io/o.php?k=q7Zx9Lm2Vb4Kt8Rw1Ns5\'>unsubscribe</a></p>',
        None,
    ),
    Mail(
        "login from new device w approve",
        "Approve sign-in?",
        '<p>Someone is signing in. Is it you?</p><table><tr><td bgcolor="#36c"><a href="https://acme.io/approve/q7Zx9Lm2Vb4Kt8Rw1Ns5" style="color:#fff">Approve sign-in</a></td></tr></table><p><a href=\'https://acme.io/deny/1f8e2c44-9b1d-4a57-8f0e-6a2c9d3b7e10\'>Deny</a></p>',
        "https://acme.io/approve/q7Zx9Lm2Vb4Kt8Rw1Ns5",
    ),
    Mail(
        "account deletion",
        "Account deletion request",
        '<p>To permanently delete your account click below.</p><table><tr><td bgcolor="#36c"><a href="https://acme.io/account/delete/q7Zx9Lm2Vb4Kt8Rw1Ns5" style="color:#fff">Delete my account</a></td></tr></table>',
        "https://acme.io/account/delete/q7Zx9Lm2Vb4Kt8Rw1Ns5",
    ),
    Mail(
        "expired trial",
        "Your trial ends",
        '<table><tr><td bgcolor="#36c"><a href="https://acme.io/upgrade?token=q7Zx9Lm2Vb4Kt8Rw1Ns5" style="color:#fff">Upgrade now</a></td></tr></table>',
        None,
    ),
    Mail(
        "download export",
        "Your data is ready",
        '<table><tr><td bgcolor="#36c"><a href="https://acme.io/export/q7Zx9Lm2Vb4Kt8Rw1Ns5.zip" style="color:#fff">Download data</a></td></tr></table>',
        None,
    ),
    Mail(
        "review document",
        "Please sign: Contract",
        '<table><tr><td bgcolor="#36c"><a href="https://sign.io/d/q7Zx9Lm2Vb4Kt8Rw1Ns5" style="color:#fff">Review document</a></td></tr></table>',
        None,
    ),
    Mail(
        "job alert",
        "5 new jobs",
        '<table><tr><td bgcolor="#36c"><a href="https://j.io/comm/jobs?trk=q7Zx9Lm2Vb4Kt8Rw1Ns5" style="color:#fff">See all jobs</a></td></tr></table>',
        None,
    ),
    Mail(
        "password expiring",
        "Your password expires soon",
        '<table><tr><td bgcolor="#36c"><a href="https://acme.io/password/change" style="color:#fff">Change password</a></td></tr></table>',
        None,
    ),
    Mail(
        "set password new user",
        "Your new account",
        "<p>An account was created for you. Please set your password:</p><p><a href='https://acme.io/set-password?uid=Mg&token=5ab-0123456789abcdef'>https://acme.io/set-password?uid=Mg&amp;token=5ab-0123456789abcdef</a></p>",
        "https://acme.io/set-password?uid=Mg&token=5ab-0123456789abcdef",
    ),
    Mail(
        "verify phone page w short",
        "Verify",
        "<p>Verify here: <a href='https://ac.me/x7Kq2'>ac.me/x7Kq2</a></p>",
        "https://ac.me/x7Kq2",
    ),
    Mail(
        "本登録",
        "【アクメ】会員登録のご案内",
        "アクメにご登録いただきありがとうございます。\n以下のURLをクリックして、本登録を完了してください。\n\nhttps://acme.jp/regist/complete?key=q7Zx9Lm2Vb4Kt8Rw1Ns5\n\n※URLの有効期限は24時間です。\n※このメールに心当たりがない場合は、破棄してください。\n\nアクメ https://acme.jp/\nお問い合わせ https://acme.jp/contact?sid=1f8e2c44-9b1d-4a57-8f0e-6a2c9d3b7e10",
        "https://acme.jp/regist/complete?key=q7Zx9Lm2Vb4Kt8Rw1Ns5",
    ),
    Mail(
        "邮箱验证",
        "【阿克米】邮箱验证",
        "您好，请点击下面的链接完成邮箱验证（24小时内有效）：\nhttps://acme.cn/u/activate?c=q7Zx9Lm2Vb4Kt8Rw1Ns5\n如非本人操作，请忽略此邮件。\n退订：https://acme.cn/u/t?c=1f8e2c44-9b1d-4a57-8f0e-6a2c9d3b7e10",
        "https://acme.cn/u/activate?c=q7Zx9Lm2Vb4Kt8Rw1Ns5",
    ),
    Mail(
        "비밀번호",
        "[아크미] 비밀번호 재설정 안내",
        '<p>아래 버튼을 눌러 비밀번호를 다시 설정해 주세요.</p><table><tr><td bgcolor="#36c"><a href="https://acme.kr/p/q7Zx9Lm2Vb4Kt8Rw1Ns5" style="color:#fff">비밀번호 다시 설정</a></td></tr></table><p>본인이 요청하지 않았다면 이 메일을 무시하세요.</p>',
        "https://acme.kr/p/q7Zx9Lm2Vb4Kt8Rw1Ns5",
    ),
    Mail(
        "كلمة المرور",
        "إعادة تعيين كلمة المرور",
        '<p dir=rtl>لقد طلبت إعادة تعيين كلمة المرور.</p><table><tr><td bgcolor="#36c"><a href="https://acme.sa/p/q7Zx9Lm2Vb4Kt8Rw1Ns5" style="color:#fff">إعادة التعيين</a></td></tr></table><p><a href=\'https://acme.sa/s/1f8e2c44-9b1d-4a57-8f0e-6a2c9d3b7e10\'>إلغاء الاشتراك</a></p>',
        "https://acme.sa/p/q7Zx9Lm2Vb4Kt8Rw1Ns5",
    ),
    Mail(
        "fr notice",
        "Nouvelle connexion",
        "<p>Si vous n'êtes pas à l'origine de cette connexion, <a href='https://acme.fr/reset/q7Zx9Lm2Vb4Kt8Rw1Ns5'>réinitialisez votre mot de passe</a>.</p>",
        None,
    ),
    Mail(
        "es notice",
        "Contraseña cambiada",
        "<p>Si no fuiste tú, <a href='https://acme.es/reset/q7Zx9Lm2Vb4Kt8Rw1Ns5'>restablece tu contraseña</a> de inmediato.</p>",
        None,
    ),
    Mail(
        "de notice",
        "Passwort geändert",
        "<p>Warst du das nicht? <a href='https://acme.de/reset/q7Zx9Lm2Vb4Kt8Rw1Ns5'>Passwort zurücksetzen</a></p>",
        None,
    ),
    Mail(
        "pt notice",
        "Novo acesso",
        "<p>Se não foi você, <a href='https://acme.br/x/q7Zx9Lm2Vb4Kt8Rw1Ns5'>redefina sua senha</a>.</p>",
        None,
    ),
    Mail(
        "ru notice",
        "Новый вход",
        "<p>Если это были не вы, <a href='https://acme.ru/x/q7Zx9Lm2Vb4Kt8Rw1Ns5'>смените пароль</a>.</p>",
        None,
    ),
    Mail(
        "ja notice",
        "新しいログイン",
        "<p>お心当たりがない場合は<a href='https://acme.jp/x/q7Zx9Lm2Vb4Kt8Rw1Ns5'>パスワードを変更</a>してください。</p>",
        None,
    ),
    Mail(
        "zh notice",
        "新设备登录",
        "<p>如果不是您本人操作，请立即<a href='https://acme.cn/x/q7Zx9Lm2Vb4Kt8Rw1Ns5'>修改密码</a>。</p>",
        None,
    ),
    Mail(
        "it notice",
        "Nuovo accesso",
        "<p>Se non sei stato tu, <a href='https://acme.it/x/q7Zx9Lm2Vb4Kt8Rw1Ns5'>reimposta la password</a>.</p>",
        None,
    ),
    Mail(
        "nl notice",
        "Nieuwe login",
        "<p>Was jij dit niet? <a href='https://acme.nl/x/q7Zx9Lm2Vb4Kt8Rw1Ns5'>Wijzig je wachtwoord</a>.</p>",
        None,
    ),
    Mail(
        "pl notice",
        "Nowe logowanie",
        "<p>Jeśli to nie Ty, <a href='https://acme.pl/x/q7Zx9Lm2Vb4Kt8Rw1Ns5'>zmień hasło</a>.</p>",
        None,
    ),
]
