"""Turkish, Azerbaijani, Uzbek, Kazakh, Kyrgyz, Mongolian."""

from oncebox.mail.codewords.words import Words

TABLE = {
    "tr": Words(
        code=(
            "kod, tek kullanım, doğrulama şifre, onay şifre, giriş şifre, =pin, "
            "doğrulama numara, ~kodu, şifreniz:, sms şifre, tek seferlik, dinamik şifre"
        ),
        purpose=(
            "doğrula, onay, giriş, oturum, güvenlik, kayıt, sıfırla, kurtar, aktivasyon, "
            "etkinleştir, kimlik, hesap, hesab, erişim, iki adım, iki faktör, teyit"
        ),
        ask="girin, gir, kullan, yaz, aşağıda, aşağı, işte, kopyala, giriniz, yukarıda",
        limit=(
            "geçerli, süresi, dakika, saat, paylaşma, kimse, yok say, görmezden, dikkate alma, "
            "talep etme, iste"
        ),
        other=(
            "sipariş, fatura, fiş, bilet, kargo, gönderi, paket, teslimat, takip, telefon, "
            "=tel, müşteri, referans, tutar, toplam, fiyat, posta kodu, hata, vergi, =iban, "
            "hesap numarası, hesap no, seri, sürüm, ürün, adet, sayfa, biten, kart, sokak, "
            "cadde, oda, ödeme, işlem, talep no, talep numarası, bakiye, puan, üye no"
        ),
        gift="indirim, kupon, promosyon, hediye, kampanya, fırsat, çeki",
        standing="şifre, parola, kullanıcı adı, yedek kod, kurtarma kodları",
        event="toplantı, rezervasyon, uçuş, seyahat, otel, etkinlik, randevu",
        common=(
            "ve, bir, bu, için, ile, da, de, sizin, size, eğer, değil, veya, olarak, merhaba, "
            "teşekkür, lütfen, hesabınız, siz, en, olan, tarafından"
        ),
    ),
    "az": Words(
        code="kod, birdəfəlik, =pin, ~kodu",
        purpose=(
            "təsdiq, doğrula, giriş, təhlükəsiz, qeydiyyat, sıfırla, bərpa, aktiv, hesab, kimlik"
        ),
        ask="daxil edin, istifadə, aşağıda, budur, yazın",
        limit="etibarlı, vaxtı bit, dəqiqə, saat, paylaşma, heç kim, nəzərə alma",
        other=(
            "sifariş, faktura, qəbz, bilet, çatdırıl, bağlama, telefon, müştəri, məbləğ, cəmi, "
            "qiymət, poçt, xəta, kart, küçə, ödəniş"
        ),
        gift="endirim, kupon, hədiyyə",
        standing="şifrə, parol, istifadəçi adı",
        common=(
            "və, bir, bu, üçün, ilə, sizin, əgər, deyil, və ya, salam, təşəkkür, zəhmət, siz, "
            "edin, olan"
        ),
    ),
    "uz": Words(
        code="kod, код, bir martalik, =pin",
        purpose="tasdiq, tekshir, kirish, xavfsiz, ro'yxat, tikla, faol, hisob, тасдик",
        ask="kiriting, foydalan, quyida, quyidagi, mana",
        limit="amal qil, muddati, daqiqa, soat, ulashma, hech kim, e'tibor",
        other=(
            "buyurtma, hisob faktura, chipta, jo'natma, yetkaz, telefon, mijoz, summa, jami, "
            "narx, pochta indeks, xato, karta, ko'cha, to'lov"
        ),
        gift="chegirma, kupon, sovg'a",
        standing="parol, foydalanuvchi nomi",
        common=(
            "va, bu, uchun, bilan, sizning, agar, emas, yoki, salom, rahmat, iltimos, siz, "
            "ushbu, ham, ning"
        ),
    ),
    "kk": Words(
        code="код, бір реттік",
        purpose="раста, тексер, кіру, қауіпсіз, тіркел, қалпына, белсен, тіркелгі",
        ask="енгіз, пайдалан, келесі, төменде, міне",
        limit="жарамды, минут, сағат, бөліспе, ешкім, елеме",
        other="тапсырыс, шот, билет, жеткіз, телефон, сома, баға, қате, карта, көше, төлем",
        gift="жеңілдік, купон, сыйлық",
        standing="құпиясөз, құпия сөз",
        common=(
            "және, бұл, үшін, сіздің, сіз, егер, емес, немесе, сәлеметсіз, рақмет, мен, бен, осы"
        ),
    ),
    "mn": Words(
        code="код, нэг удаагийн",
        purpose="баталгаажуул, нэвтр, аюулгүй, бүртг, сэргээ, идэвхж, бүртгэл",
        ask="оруул, ашигла, дараах, доорх",
        limit="хүчинтэй, минут, цаг, хуваалцахгүй, үл тоо",
        other="захиалг, нэхэмжл, тасалбар, хүргэлт, утас, нийт, үнэ, алдаа, карт, төлбөр",
        gift="хөнгөлөлт, купон, бэлэг",
        standing="нууц үг",
        common="ба, энэ, таны, та, бол, нь, байна, эсвэл, сайн, баярлалаа, хэрэв, юм",
    ),
}
