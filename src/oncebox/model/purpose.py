"""What a message is about, by the words that such messages have in many languages."""

# ruff: noqa: RUF001 - these are words of many alphabets

from enum import StrEnum


class Purpose(StrEnum):
    """What an inbox waits for."""

    ANY = "any"
    SIGNUP = "signup"
    LOGIN = "login"
    RESET = "reset"
    INVITE = "invite"


#: words that tell a purpose, in lower case; found anywhere in subject or text
_WORDS: dict[Purpose, tuple[str, ...]] = {
    Purpose.SIGNUP: (
        "activate your", "complete your registration", "confirm your account",
        "confirm your e-mail", "confirm your email", "confirm your registration",
        "finish signing up", "sign up", "signing up", "verify your account", "verify your e-mail",
        "verify your email", "welcome to",
        "bestätige deine e-mail", "bestätigen sie ihre e-mail", "konto aktivieren",
        "registrierung", "willkommen bei",
        "activez votre compte", "bienvenue", "confirmez votre", "inscription",
        "bienvenido", "confirma tu", "confirme su", "registro", "verifica tu",
        "attiva il tuo", "benvenut", "conferma il tuo", "registrazione",
        "bem-vindo", "cadastro", "confirme o seu", "confirme seu",
        "bevestig je", "registratie", "welkom bij",
        "potwierdź", "rejestrac", "aktywuj",
        "bekräfta din", "bekræft din", "bekreft e-post", "vahvista sähköposti",
        "hesabınızı doğrula", "hoş geldin", "kaydınızı",
        "подтвердите", "регистрац", "добро пожаловать", "підтвердьте", "реєстрац",
        "会員登録", "登録を完了", "メールアドレスの確認", "验证您的", "欢迎加入", "注册", "註冊",
        "가입", "이메일 인증",
    ),
    Purpose.LOGIN: (
        "2fa", "log in", "log-in", "logging in", "login", "magic link", "one-time code",
        "one-time pass", "passcode", "security code", "sign in", "sign-in", "signing in",
        "two-factor", "two-step", "verification code",
        "anmeldecode", "anmelden", "anmeldung", "bestätigungscode", "einmalcode", "sicherheitscode",
        "code de connexion", "code de sécurité", "code de vérification", "connectez-vous",
        "connexion", "se connecter",
        "código de acceso", "código de seguridad", "código de verificación", "iniciar sesión",
        "inicio de sesión",
        "accedi", "accesso", "codice di sicurezza", "codice di verifica",
        "código de segurança", "código de verificação", "iniciar sessão", "fazer login",
        "aanmelden", "inloggen", "verificatiecode",
        "kod weryfikacyjny", "logowani", "zaloguj",
        "inloggning", "logga in", "logg inn", "log ind", "kirjaudu",
        "doğrulama kodu", "giriş yap", "oturum aç",
        "код подтверждения", "вход в", "войти", "код підтвердження", "увійти",
        "ログイン", "認証コード", "确认码", "登录", "登入", "验证码", "驗證碼",
        "로그인", "인증 코드", "인증번호",
    ),
    Purpose.RESET: (
        "change your password", "forgot your password", "new password", "password reset",
        "recover your account", "reset password", "reset the password", "reset your password",
        "kennwort zurück", "neues passwort", "passwort vergessen", "passwort zurück",
        "mot de passe",
        "contraseña",
        "password dimenticata", "reimposta", "reimpostare la password",
        "redefinição de senha", "redefinir", "repor a palavra-passe",
        "wachtwoord",
        "resetowanie hasła", "zresetuj", "nowe hasło",
        "nollställ", "nulstil", "salasana", "tilbakestill", "återställ",
        "parola sıfırla", "şifre sıfırla", "şifrenizi",
        "сброс пароля", "смена пароля", "сбросить пароль", "скидання пароля",
        "パスワード", "重置密码", "重設密碼", "密码重置",
        "비밀번호",
    ),
    Purpose.INVITE: (
        "accept the invitation", "accept your invitation", "has invited you", "invitation to",
        "invited you", "invited to", "join the team", "join your team", "you're invited",
        "you have been invited", "you've been invited",
        "einladung", "eingeladen", "lädt dich ein", "lädt sie ein",
        "a invité", "vous invite",
        "invitación", "te ha invitado", "te invitó",
        "invito", "ti ha invitato",
        "convidou", "convite",
        "uitgenodigd", "uitnodiging",
        "zaprasza", "zaproszeni",
        "bjuder in", "inbjud", "inviter", "invitasjon", "kutsu",
        "davet",
        "приглаш", "запрош", "запрошенн",
        "招待", "邀请", "邀請",
        "초대",
    ),
}  # fmt: skip
_FOLDED = {purpose: tuple(word.casefold() for word in words) for purpose, words in _WORDS.items()}


def purposes(text: str) -> set[Purpose]:
    """Return what a text may be about; one text may tell of several, or of none."""
    lowered = text.casefold()
    return {purpose for purpose, words in _FOLDED.items() if any(word in lowered for word in words)}
