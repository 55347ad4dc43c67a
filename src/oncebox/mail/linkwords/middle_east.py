"""Words of the languages of the Middle East, and of Africa."""

# ruff: noqa: E501 - words of other alphabets, a few to a line

from oncebox.mail.linkwords.table import Words

TABLE: dict[str, Words] = {
    "ar": Words(
        do="تأكيد|أكد|التأكيد|للتأكيد|تحقق|التحقق|توثيق|تفعيل|فعل حساب|تنشيط|إعادة تعيين|"
        "إعادة ضبط|استعادة|استرداد|فتح قفل|إلغاء قفل|إلغاء حظر|تغيير كلمة|غير كلمة|"
        "كلمة مرور جديدة|كلمة سر جديدة|تعيين كلمة|إنشاء كلمة|استرجاع|تصديق|صادق",
        soft="تسجيل الدخول|سجل الدخول|دخول|انضم|الانضمام|قبول|اقبل|دعوة|الدعوة|متابعة|استمر|تسجيل|"
        "إكمال|حذف|اشترك|الموافقة|ابدأ",
        never="إلغاء الاشتراك|الغاء الاشتراك|تفضيلات|إعدادات|الخصوصية|خصوصية|الشروط|شروط|مساعدة|"
        "المساعدة|الدعم|اتصل بنا|تواصل|!في المتصفح|اقرأ|المزيد|تنزيل|تحميل|شارك|تابعنا|سياسة|"
        "إدارة|من نحن|رابط جديد|رمز جديد|قواعد",
        against="لم تكن|لست أنت|لم تطلب|لم تقم|إذا لم تكن|إبلاغ|أبلغ|رفض|ارفض|إلغاء الطلب|إبطال|تراجع|"
        "حظر الحساب|!تأمين حساب|مشبوه|لا تعرف",
        ignore="تجاهل",
        business="الطلبية|طلبك|فاتورة|حجز|موعد|دفع|شراء|شحن|توصيل|سلة|عرض|خصم|فتح المست|رد على|تعليق",
    ),
    "fa": Words(
        do="تایید|تأیید|تائید|فعال|بازنشانی|بازیابی|بازگردانی|قفل‌گشایی|باز کردن قفل|تغییر رمز|"
        "تغییر گذرواژه|رمز عبور جدید|گذرواژه جدید|تنظیم رمز|ایجاد رمز|احراز|اعتبارسنجی|راستی",
        soft="ورود|وارد شو|پیوستن|بپیوندید|پذیرش|پذیرفتن|قبول|دعوت|ادامه|ثبت نام|ثبت‌نام|تکمیل|"
        "حذف|عضویت|شروع",
        never="لغو اشتراک|لغو عضویت|تنظیمات|ترجیحات|حریم خصوصی|شرایط|قوانین|راهنما|پشتیبانی|تماس|"
        "!در مرورگر|بیشتر بخوان|اطلاعات بیشتر|دانلود|بارگیری|اشتراک‌گذاری|سیاست|مدیریت|درباره|"
        "پیوند جدید|کد جدید",
        against="شما نبود|نبوده‌اید|درخواست نکرد|نداده‌اید|نکرده‌اید|گزارش|رد کردن|نپذیر|لغو درخواست|"
        "باطل|مسدود کن|مشکوک",
        ignore="نادیده",
        business="سفارش|فاکتور|رزرو|پرداخت|خرید|ارسال|سبد|تخفیف|پیشنهاد",
    ),
    "ur": Words(
        do="تصدیق|توثیق|فعال|دوبارہ ترتیب|ری سیٹ|بحال|غیر مقفل|پاس ورڈ تبدیل|نیا پاس ورڈ|"
        "پاسورڈ تبدیل|پاس ورڈ بازیافت|بازیافت",
        soft="لاگ ان|سائن ان|شامل ہو|قبول|دعوت|جاری رکھ|رجسٹر|مکمل|حذف",
        never="ان سبسکرائب|رکنیت ختم|ترجیحات|ترتیبات|رازداری|شرائط|مدد|رابطہ|سپورٹ|مزید",
        against="آپ نے نہیں|نہیں تھے|رپورٹ|مسترد|منسوخ|بلاک",
        ignore="نظر انداز",
    ),
    "ps": Words(
        do="تایید|تصدیق|فعال|پټنوم بدل|نوی پټنوم",
        soft="ننوتل|ننوځئ|بلنه|منل",
        never="محرمیت|شرایط|مرسته",
    ),
    "ckb": Words(
        do="پشتڕاست|دڵنیا|چالاک|وشەی نهێنی نوێ|گۆڕینی وشەی",
        soft="چوونەژوورەوە|بانگهێشت|قبوڵ",
        never="تایبەتێتی|مەرج|یارمەتی",
    ),
    "ku": Words(
        do="piştrast|pistrast|rast bike|calak|sifreya nu|sifre biguhere|nu ve saz",
        soft="tekeve|tevli|qebul|vexwend|bidomine",
        never="abonetiye|vebijark|nihenit|alikari",
        against="ne tu|red bike|betal",
    ),
    "he": Words(
        do="אמת|אימות|לאמת|אשר|אישור|לאשר|הפעל|הפעלת|להפעיל|איפוס|אפס|לאפס|שחזור|שחזר|לשחזר|"
        "שחרר|ביטול נעיל|פתיחת החשבון|שינוי סיסמ|שנה סיסמ|שנה את הסיסמ|לשנות את|החלפת סיסמ|"
        "סיסמה חדשה|הגדר סיסמ|הגדרת סיסמ|יצירת סיסמ",
        soft="התחבר|כניסה|היכנס|להיכנס|הצטרף|להצטרף|קבל|קבלת|הזמנה|המשך|להמשיך|הרשמ|הירשם|השלם|"
        "מחיקת|מחק",
        never="הסר|הסרה|ביטול מנוי|ביטול הרשמ|בטל מינוי|העדפות|הגדרות|פרטיות|תנאי|תקנון|עזרה|תמיכה|"
        "צור קשר|!בדפדפן|קרא עוד|מידע נוסף|הורד|שתף|עקבו|מדיניות|ניהול|אודות|קישור חדש|"
        "קוד חדש|כללי",
        against="לא את|לא ביקש|לא אני|לא היית|לא ביצע|דווח|דיווח|דחה|דחיי|סרב|בטל|ביטול הבקש|חסום|"
        "חשוד|לא מזהה",
        ignore="התעלם|להתעלם",
        business="הזמנתך|חשבונית|תור|תשלום|רכיש|משלוח|חבילה|סל ה|מבצע|הנחה",
    ),
    "yi": Words(
        do="באַשטעטיק|באשטעטיק",
        soft="אַריינלאָגירן|אריינלאגירן",
        never="אויסשרייבן",
    ),
    "am": Words(
        do="አረጋግጥ|ያረጋግጡ|አግብር|ዳግም አስጀምር|ዳግም ያስጀምሩ|የይለፍ ቃል ቀይር|አዲስ የይለፍ|ክፈት",
        soft="ግባ|ይግቡ|ተቀላቀል|ተቀበል|ግብዣ|ቀጥል|ተመዝገብ",
        never="ምዝገባን ሰርዝ|ምርጫ|ቅንብር|ግላዊነት|ውሎች|እገዛ",
        against="አልጠየቁ|ውድቅ|ሰርዝ",
        ignore="ችላ",
    ),
    "sw": Words(
        do="thibitisha|hakiki|washa|amilisha|weka upya|rejesha|fungua akaunti|"
        "badilisha nenosiri|nenosiri jipya|weka nenosiri",
        soft="ingia|jiunge|kubali|mwaliko|endelea|jisajili|jiandikishe|kamilisha|futa",
        never="jiondoe|jitoe|mapendeleo|mipangilio|faragha|masharti|msaada|wasiliana",
        against="sio wewe|si wewe|hukuomba|hukutuma|ripoti|kataa|ghairi|zuia|batilisha",
        ignore="puuza",
    ),
    "ha": Words(
        do="tabbatar|kunna|sake saita|canza kalmar|sabuwar kalmar",
        soft="shiga|karba|gayyat|ci gaba",
        never="cire rajista|saituna|sirri|sharudda|taimako",
    ),
    "yo": Words(
        do="jerisi|fidi mule|tun to|yi oro igbaniwole",
        soft="wole|gba|ipe",
        never="yokuro|asiri|iranlowo",
    ),
    "ig": Words(
        do="kwado|nyochaa|tọgharịa|gbanwee paswọọdụ",
        soft="banye|nabata|oku",
    ),
    "zu": Words(
        do="qinisekisa|sebenzisa kabusha|setha kabusha|shintsha iphasiwedi|iphasiwedi entsha|vula",
        soft="ngena|joyina|yamukela|isimemo|qhubeka",
        never="zikhiphe|izintandokazi|ubumfihlo|imigomo|usizo",
        against="akuwena|yenqaba|khansela",
        ignore="ungazinaki",
    ),
    "xh": Words(
        do="qinisekisa|seta ngokutsha|tshintsha iphasiwedi",
        soft="ngena|joyina|yamkela|isimemo",
    ),
    "so": Words(
        do="xaqiiji|hubi|dib u deji|beddel furaha|furaha cusub",
        soft="ku biir|aqbal|casuumaad",
    ),
    "mg": Words(
        do="hamarino|hanamarina|avereno|ovay ny teny",
        soft="midira|ekeo|fanasana",
    ),
}
