"""Words of the languages of South, South-East and East Asia."""

# ruff: noqa: E501, RUF001 - words of other alphabets, a few to a line

from oncebox.mail.linkwords.table import Words

TABLE: dict[str, Words] = {
    "hi": Words(
        do="सत्यापि|पुष्टि|प्रमाणि|सक्रिय|रीसेट|पुनर्प्राप्त|पुनर्स्थापि|अनलॉक|पासवर्ड बदल|"
        "नया पासवर्ड|पासवर्ड सेट|पासवर्ड बना|वेरिफाई|कन्फर्म|एक्टिवेट",
        soft="साइन इन|लॉग इन|लॉगिन|शामिल|जुड़|स्वीकार|आमंत्रण|निमंत्रण|जारी रख|पंजी|पूरा कर|हटा|"
        "रजिस्टर|सदस्यता लें",
        never="सदस्यता समाप्त|सदस्यता रद्द|अनसब्सक्राइब|प्राथमिकता|सेटिंग|गोपनीयता|शर्त|सहायता|मदद|"
        "संपर्क|!ब्राउज़र में|और पढ़|अधिक जान|डाउनलोड|नीति",
        against="आपने नहीं|आप नहीं|अनुरोध नहीं|रिपोर्ट|अस्वीकार|रद्द|निरस्त|ब्लॉक|संदिग्ध",
        ignore="अनदेखा|नज़रअंदाज़",
        business="ऑर्डर|बिल|बुकिंग|भुगतान|खरीद|डिलीवरी|ऑफ़र|छूट",
    ),
    "ne": Words(
        do="प्रमाणि|पुष्टि|सक्रिय|रिसेट|पासवर्ड परिवर्तन|पासवर्ड बदल|नयाँ पासवर्ड|पुनर्प्राप्त|अनलक",
        soft="साइन इन|लग इन|सामेल|स्वीकार|निमन्त्रणा|निम्तो|जारी राख|दर्ता",
        never="सदस्यता रद्द|सेटिङ|गोपनीयता|सर्त|मद्दत|सम्पर्क",
        against="तपाईंले होइन|अनुरोध गर्नुभएको छैन|अस्वीकार|रद्द",
        ignore="बेवास्ता",
    ),
    "mr": Words(
        do="सत्यापि|पुष्टी|पडताळ|सक्रिय|रीसेट|पासवर्ड बदल|नवीन पासवर्ड|अनलॉक|पुनर्प्राप्त",
        soft="साइन इन|लॉग इन|सामील|स्वीकार|आमंत्रण|सुरू ठेव|नोंदणी",
        never="सदस्यता रद्द|सेटिंग|गोपनीयता|अटी|मदत|संपर्क",
        against="तुम्ही नाही|विनंती केली नाही|नाकार|रद्द",
        ignore="दुर्लक्ष",
    ),
    "bn": Words(
        do="যাচাই|নিশ্চিত|সক্রিয়|রিসেট|পুনরুদ্ধার|আনলক|পাসওয়ার্ড পরিবর্তন|নতুন পাসওয়ার্ড|পাসওয়ার্ড সেট",
        soft="সাইন ইন|লগ ইন|লগইন|যোগ দিন|গ্রহণ|আমন্ত্রণ|চালিয়ে|নিবন্ধন|সম্পূর্ণ|মুছ",
        never="সদস্যতা ত্যাগ|আনসাবস্ক্রাইব|পছন্দ|সেটিংস|গোপনীয়তা|শর্ত|সাহায্য|সহায়তা|যোগাযোগ|আরও জান|ডাউনলোড",
        against="আপনি না|অনুরোধ করেননি|প্রত্যাখ্যান|বাতিল|রিপোর্ট|ব্লক",
        ignore="উপেক্ষা",
    ),
    "gu": Words(
        do="ચકાસ|પુષ્ટિ|ખાતરી|સક્રિય|રીસેટ|પુનઃપ્રાપ્ત|અનલૉક|પાસવર્ડ બદલ|નવો પાસવર્ડ",
        soft="સાઇન ઇન|લૉગ ઇન|જોડા|સ્વીકાર|આમંત્રણ|ચાલુ રાખ|નોંધણી",
        never="અનસબ્સ્ક્રાઇબ|પસંદગી|સેટિંગ|ગોપનીયતા|શરતો|મદદ|સંપર્ક",
        against="તમે નથી|વિનંતી કરી નથી|નકાર|રદ",
        ignore="અવગણ",
    ),
    "pa": Words(
        do="ਪੁਸ਼ਟੀ|ਤਸਦੀਕ|ਸਰਗਰਮ|ਰੀਸੈਟ|ਪਾਸਵਰਡ ਬਦਲ|ਨਵਾਂ ਪਾਸਵਰਡ|ਅਨਲੌਕ",
        soft="ਸਾਈਨ ਇਨ|ਲੌਗ ਇਨ|ਲਾਗਇਨ|ਸ਼ਾਮਲ|ਸਵੀਕਾਰ|ਸੱਦਾ|ਜਾਰੀ ਰੱਖ|ਰਜਿਸਟਰ",
        never="ਗਾਹਕੀ ਰੱਦ|ਸੈਟਿੰਗ|ਪਰਦੇਦਾਰੀ|ਸ਼ਰਤਾਂ|ਮਦਦ|ਸੰਪਰਕ",
        against="ਤੁਸੀਂ ਨਹੀਂ|ਅਸਵੀਕਾਰ|ਰੱਦ",
        ignore="ਅਣਡਿੱਠ",
    ),
    "ta": Words(
        do="சரிபார்|உறுதிப்படுத்|உறுதி செய்|செயல்படுத்|மீட்டமை|மீட்டெடு|திற|கடவுச்சொல்லை மாற்ற|புதிய கடவுச்சொல்",
        soft="உள்நுழை|உள்நுழைக|சேர|ஏற்று|ஏற்க|அழைப்பு|அழைப்பை|தொடர|பதிவு",
        never="குழுவிலக|சந்தாவை ரத்து|விருப்பத்தேர்வு|அமைப்புகள்|தனியுரிமை|விதிமுறை|உதவி|தொடர்பு",
        against="நீங்கள் இல்லை|கோரவில்லை|நிராகரி|ரத்து",
        ignore="புறக்கணி",
    ),
    "te": Words(
        do="ధృవీకర|నిర్ధార|ధృవపర|సక్రియ|రీసెట్|పునరుద్ధర|పాస్‌వర్డ్ మార్చ|పాస్వర్డ్ మార్చ|కొత్త పాస్‌వర్డ్|అన్‌లాక్",
        soft="సైన్ ఇన్|లాగిన్|లాగ్ ఇన్|చేర|అంగీకర|ఆహ్వాన|కొనసాగ|నమోదు",
        never="చందా తొలగ|అన్‌సబ్‌స్క్రైబ్|ప్రాధాన్య|సెట్టింగ్|గోప్యత|నిబంధన|సహాయ|సంప్రదించ",
        against="మీరు కాద|అభ్యర్థించలేద|తిరస్కర|రద్దు",
        ignore="విస్మరి",
    ),
    "kn": Words(
        do="ಪರಿಶೀಲಿಸ|ದೃಢೀಕರಿಸ|ಖಚಿತಪಡಿಸ|ಸಕ್ರಿಯ|ಮರುಹೊಂದಿಸ|ಪಾಸ್‌ವರ್ಡ್ ಬದಲಾಯಿಸ|ಹೊಸ ಪಾಸ್‌ವರ್ಡ್|ಅನ್‌ಲಾಕ್",
        soft="ಸೈನ್ ಇನ್|ಲಾಗಿನ್|ಲಾಗ್ ಇನ್|ಸೇರ|ಸ್ವೀಕರಿಸ|ಆಹ್ವಾನ|ಮುಂದುವರಿ|ನೋಂದಣಿ",
        never="ಅನ್‌ಸಬ್‌ಸ್ಕ್ರೈಬ್|ಆದ್ಯತೆ|ಸೆಟ್ಟಿಂಗ್|ಗೌಪ್ಯತೆ|ನಿಯಮ|ಸಹಾಯ|ಸಂಪರ್ಕ",
        against="ನೀವು ಅಲ್ಲ|ತಿರಸ್ಕರಿಸ|ರದ್ದು",
        ignore="ನಿರ್ಲಕ್ಷಿಸ",
    ),
    "ml": Words(
        do="സ്ഥിരീകരി|പരിശോധി|ഉറപ്പാക്ക|സജീവ|റീസെറ്റ്|പുനഃസജ്ജ|പുനഃക്രമീകരി|വീണ്ടെടു|"
        "പാസ്‌വേഡ് മാറ്റ|പാസ്‌വേർഡ് മാറ്റ|പുതിയ പാസ്‌വേഡ്|അൺലോക്ക്",
        soft="സൈൻ ഇൻ|ലോഗിൻ|ലോഗ് ഇൻ|ചേര|സ്വീകരി|ക്ഷണം|തുടര|രജിസ്റ്റർ",
        never="അൺസബ്|മുൻഗണന|ക്രമീകരണ|സ്വകാര്യത|നിബന്ധന|സഹായം|ബന്ധപ്പെട",
        against="നിങ്ങളല്ല|നിരസി|റദ്ദാക്ക",
        ignore="അവഗണി",
    ),
    "si": Words(
        do="තහවුරු|සත්‍යාපන|සක්‍රිය|යළි සකස|නැවත සකස|මුරපදය වෙනස්|නව මුරපද|අගුළු හර",
        soft="පුරන්න|ඇතුල්|එක්වන්|පිළිගන්|ආරාධනා|ඉදිරියට|ලියාපදිංචි",
        never="දායකත්ව|මනාප|සැකසුම්|රහස්‍යතා|නියම|උදව්|සම්බන්ධ",
        against="ඔබ නොවේ|ප්‍රතික්ෂේප|අවලංගු",
        ignore="නොසලකා",
    ),
    "th": Words(
        do="ยืนยัน|ตรวจสอบ|เปิดใช้งาน|รีเซ็ต|รีเซต|ตั้งรหัสผ่าน|กู้คืน|ปลดล็อก|ปลดล็อค|"
        "เปลี่ยนรหัสผ่าน|รหัสผ่านใหม่|สร้างรหัสผ่าน|พิสูจน์",
        soft="เข้าสู่ระบบ|ลงชื่อเข้า|ล็อกอิน|เข้าร่วม|ยอมรับ|ตอบรับ|คำเชิญ|ดำเนินการต่อ|ลงทะเบียน|"
        "สมัคร|ลบบัญชี|เสร็จสิ้น",
        never="ยกเลิกการสมัคร|ยกเลิกรับ|ยกเลิกการรับ|เลิกรับ|การตั้งค่า|ตั้งค่าอีเมล|"
        "ความเป็นส่วนตัว|เงื่อนไข|ข้อกำหนด|ช่วยเหลือ|ติดต่อ|!ในเบราว์เซอร์|อ่านต่อ|อ่านเพิ่ม|"
        "เพิ่มเติม|ดาวน์โหลด|แชร์|นโยบาย",
        against="ไม่ใช่คุณ|ไม่ได้ขอ|ไม่ได้ร้องขอ|มิได้|ไม่ได้เป็น|รายงาน|ปฏิเสธ|ยกเลิกคำขอ|เพิกถอน|บล็อก|น่าสงสัย",
        ignore="เพิกเฉย|ละเว้น",
        business="คำสั่งซื้อ|ใบแจ้งหนี้|การจอง|ชำระเงิน|จัดส่ง|พัสดุ|ตะกร้า|ส่วนลด|โปรโมชัน",
    ),
    "lo": Words(
        do="ຢືນຢັນ|ກວດສອບ|ເປີດໃຊ້|ຣີເຊັດ|ຕັ້ງລະຫັດ|ລະຫັດຜ່ານໃໝ່|ປ່ຽນລະຫັດ|ປົດລັອກ",
        soft="ເຂົ້າສູ່ລະບົບ|ເຂົ້າຮ່ວມ|ຍອມຮັບ|ຄຳເຊີນ|ສືບຕໍ່",
        never="ຍົກເລີກການຕິດຕາມ|ຄວາມເປັນສ່ວນຕົວ|ເງື່ອນໄຂ|ຊ່ວຍເຫຼືອ",
    ),
    "km": Words(
        do="ផ្ទៀងផ្ទាត់|បញ្ជាក់|ធ្វើឱ្យសកម្ម|កំណត់ឡើងវិញ|ប្តូរពាក្យសម្ងាត់|ពាក្យសម្ងាត់ថ្មី|ដោះសោ",
        soft="ចូល|ចូលរួម|ទទួលយក|អញ្ជើញ|បន្ត",
        never="ឈប់ជាវ|ឯកជន|លក្ខខណ្ឌ|ជំនួយ|ទំនាក់ទំនង",
    ),
    "my": Words(
        do="အတည်ပြု|စစ်ဆေး|အသက်သွင်း|ပြန်လည်သတ်မှတ်|စကားဝှက်ပြောင်း|စကားဝှက်အသစ်|သော့ဖွင့်",
        soft="ဝင်ရောက်|အကောင့်ဝင်|ပါဝင်|လက်ခံ|ဖိတ်ကြား|ဆက်လက်",
        never="စာရင်းမှ|ကိုယ်ရေး|စည်းမျဉ်း|အကူအညီ|ဆက်သွယ်",
    ),
    "vi": Words(
        do="xac nhan|xac minh|xac thuc|kich hoat|dat lai|khoi phuc|mo khoa|doi mat khau|"
        "thay doi mat khau|mat khau moi|tao mat khau|thiet lap mat khau|lay lai mat khau|"
        "doi mat ma",
        soft="dang nhap|tham gia|chap nhan|loi moi|tiep tuc|dang ky|hoan tat|xoa tai khoan|dong y|"
        "bat dau",
        never="huy dang ky|ngung nhan|huy theo doi|tuy chon|cai dat|quyen rieng tu|"
        "bao mat thong tin|dieu khoan|tro giup|ho tro|lien he|!trong trinh duyet|xem them|"
        "doc them|tim hieu|tai xuong|tai ung dung|chia se|chinh sach|quan ly|lien ket moi|"
        "ma moi|gui lai",
        against="khong phai ban|khong yeu cau|khong phai la ban|khong thuc hien|bao cao|tu choi|"
        "thu hoi|huy bo|huy yeu|hoan tac|chan tai khoan|dang ngo|khong phai toi",
        ignore="bo qua",
        business="don hang|hoa don|dat cho|lich hen|thanh toan|mua|giao hang|gio hang|khuyen mai|"
        "uu dai|su kien|xem |tra loi|binh luan|tin nhan|tai lieu",
    ),
    "id": Words(
        do="verifikasi|konfirmasi|aktifkan|aktivasi|validasi|atur ulang|setel ulang|reset|"
        "pulihkan|pemulihan|buka kunci|ubah kata sandi|ganti kata sandi|ganti password|"
        "ubah password|kata sandi baru|password baru|buat kata sandi|buat password|"
        "mengonfirmasi|memverifikasi|mengatur ulang|mereset|autentikasi",
        soft="masuk|login|gabung|bergabung|terima undangan|menerima undangan|undangan|lanjut|"
        "daftar|selesaikan|hapus|langganan|mulai|setuju",
        never="berhenti berlangganan|batal berlangganan|preferensi|pengaturan|privasi|ketentuan|"
        "syarat|bantuan|dukungan|hubungi|!di browser|selengkapnya|baca|pelajari|unduh|bagikan|"
        "ikuti kami|kebijakan|kelola|tentang|tautan baru|kode baru|kirim ulang|aturan",
        against="bukan anda|bukan kamu|bukan saya|tidak meminta|tidak merasa|tidak melakukan|"
        "laporkan|tolak|batalkan|cabut|blokir|!amankan|mencurigakan|tidak mengenali",
        ignore="abaikan",
        business="pesanan|tagihan|faktur|pemesanan|pembayaran|pembelian|pengiriman|paket|keranjang|"
        "promo|diskon|acara|tiket|lihat|buka |balas|komentar|pesan|dokumen|berkas",
    ),
    "ms": Words(
        do="sahkan|pengesahan|mengesahkan|aktifkan|mengaktifkan|tetapkan semula|tetapan semula|menetapkan semula|set semula|pulihkan|"
        "buka kunci|tukar kata laluan|ubah kata laluan|kata laluan baharu|kata laluan baru",
        soft="log masuk|daftar masuk|sertai|terima jemputan|jemputan|teruskan|daftar|selesaikan|"
        "padam",
        never="nyahlanggan|henti langgan|keutamaan|tetapan|privasi|terma|syarat|bantuan|sokongan|"
        "hubungi|muat turun|dasar",
        against="bukan anda|tidak meminta|laporkan|tolak|batalkan|sekat|mencurigakan",
        ignore="abaikan",
    ),
    "jv": Words(
        do="verifikasi|konfirmasi|aktifake|reset|ganti sandi|ganti tembung",
        soft="mlebu|gabung|tampa|undangan|lanjut",
    ),
    "tl": Words(
        do="kumpirmahin|i-verify|patunayan|beripikahin|i-activate|i-reset|i-unlock|"
        "palitan ang password|bagong password|baguhin ang|mag-verify",
        soft="mag-sign in|mag-log in|sumali|tanggapin|imbitasyon|magpatuloy|magrehistro|tapusin|"
        "burahin|tanggalin",
        never="mag-unsubscribe|kagustuhan|mga setting|pagkapribado|patakaran|tuntunin|tulong|"
        "makipag-ugnay",
        against="hindi ikaw|hindi mo|iulat|tanggihan|kanselahin|i-block",
        ignore="balewalain",
    ),
    "zh": Words(
        do="验证|驗證|确认|確認|激活|啟用|启用|啟動|认证|認證|重置|重設|重设|重新设置|重新設定|找回|恢复|恢復|解锁|解鎖|修改密码|修改密碼|更改密码|更改密碼|"
        "变更密码|變更密碼|新密码|新密碼|设置密码|設定密碼|设定密码|设置新|核实|校验",
        soft="登录|登入|登陆|登錄|加入|接受|邀请|邀請|继续|繼續|注册|註冊|完成|删除|刪除|同意|授权|授權|订阅|訂閱|开始|開始|查看邀",
        never="退订|退訂|取消订阅|取消訂閱|不再接收|偏好|设置中心|邮件设置|郵件設定|通知设置|通知設定|隐私|隱私|条款|條款|协议|政策|帮助|幫助|說明|客服|联系我们|"
        "聯絡我們|聯繫|!浏览器中|!瀏覽器中|在线查看|查看更多|了解更多|阅读|閱讀|下载|下載|分享|关注|問卷|问卷|评价|關於|关于|官网|官網|管理|規則|规则|"
        "重新发送|重新發送|新的链接",
        against="不是您|不是你|不是本人|非本人|并非您|並非您|没有请求|沒有要求|未请求|未要求|未曾|没有申请|沒有申請|未申请|举报|檢舉|报告|拒绝|拒絕|撤销|撤銷|取消|"
        "冻结|封鎖|可疑|!保护您的|并未|並未|没有进行|不认识",
        ignore="忽略|无视|无需|無需",
        business="订单|訂單|发票|發票|预订|預訂|预约|預約|付款|支付|购买|購買|配送|物流|包裹|购物车|購物車|优惠|優惠|折扣|活动|活動|续费|續費|到期|查看|打开|"
        "打開|回复|回覆|评论|評論|消息|文档|文件",
    ),
    "ja": Words(
        do="確認|認証|検証|有効化|アクティベート|有効に|再設定|リセット|復元|復旧|ロック解除|ロックを解除|パスワード変更|パスワードの変更|パスワードを変更|"
        "新しいパスワード|パスワードを設定|パスワードの設定|パスワードを作成|本登録|承認|ベリファイ|コンファーム",
        soft="ログイン|サインイン|参加|受諾|受け入れ|承諾|招待|続行|続ける|登録|完了|削除|購読|許可|開始|はじめる|始める",
        never="配信停止|購読解除|登録解除|配信解除|メール設定|設定の変更|通知設定|プライバシー|利用規約|規約|ポリシー|ヘルプ|サポート|お問い合わせ|問い合わせ|よくある|"
        "!ブラウザで|詳細|詳しく|もっと見る|続きを読む|ダウンロード|シェア|フォロー|アンケート|運営会社|会社概要|公式サイト|ホームページ|ルール|再送|新しいリンク",
        against="心当たり|お客様でない|ご本人でない|あなたでない|あなたではない|覚えのない|身に覚え|リクエストしていない|していない場合|報告|拒否|辞退|取り消|取消|"
        "キャンセル|ブロック|不審",
        ignore="無視|破棄",
        business="注文|請求|予約|お支払|購入|配送|発送|荷物|カート|セール|クーポン|キャンペーン|イベント|チケット|見る|表示|開く|返信|コメント|メッセージ|"
        "ドキュメント|ファイル",
    ),
    "ko": Words(
        do="인증|확인|검증|활성화|재설정|다시 설정|초기화|복구|복원|잠금 해제|잠금해제|비밀번호 변경|비밀번호를 변경|암호 변경|암호를 변경|패스워드 변경|새 비밀번호|"
        "새 암호|비밀번호 설정|비밀번호 만들|암호 설정|암호 재",
        soft="로그인|참여|가입|수락|초대|계속|등록|완료|삭제|탈퇴|승인|동의|구독하|시작",
        never="수신거부|수신 거부|구독 취소|구독취소|구독 해지|환경설정|환경 설정|설정 변경|알림 설정|이메일 설정|개인정보|이용약관|약관|정책|도움말|고객센터|"
        "고객 센터|지원|문의|!브라우저에서|더 알아보|자세히|더 보기|읽기|다운로드|공유|팔로우|설문|회사 소개|홈페이지|규칙|재전송|다시 보내|새 링크",
        against="본인이 아니|본인이 아닌|본인이 요청|요청하지 않|직접 요청|하지 않으셨|원치 않|신고|거부|거절|취소|철회|되돌리|차단|의심|!보호하",
        ignore="무시",
        business="주문|청구|예약|결제|구매|배송|택배|장바구니|할인|쿠폰|이벤트|티켓|보기|열기|답장|댓글|메시지|문서|파일",
    ),
    "mn": Words(
        do="баталгаажуул|шалгах|идэвхжүүл|сэргээ|шинэчил|нууц үг солих|нууц үгээ|шинэ нууц үг|"
        "түгжээг тайл",
        soft="нэвтрэх|нэгдэх|зөвшөөр|урилга|үргэлжлүүл|бүртгүүл|устгах",
        never="захиалга цуцл|тохиргоо|нууцлал|нөхцөл|тусламж|холбоо барих",
        against="та биш|татгалз|цуцлах|мэдээлэх",
        ignore="үл тоо",
    ),
}
