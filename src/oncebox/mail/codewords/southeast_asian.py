"""Vietnamese, Indonesian, Malay, Filipino, Thai and their neighbours; Swahili and Amharic."""

from oncebox.mail.codewords.words import Words

TABLE = {
    "vi": Words(
        code=(
            "mã xác, mã otp, mã kích hoạt, mã đăng, mã bảo mật, mã của bạn, mã này, mã số, "
            "mã pin, mã sau, mã là, mã khôi phục, mã đặt lại, mật khẩu dùng một lần, "
            "mật khẩu một lần, mã truy cập, mã dùng một lần, mã 6, mã:, mã gồm, mã code, "
            "mã kiểm, mã dưới, nhập mã, là mã, mã đổi, mã thông báo"
        ),
        purpose=(
            "xác minh, xác nhận, xác thực, đăng nhập, bảo mật, đăng ký, đặt lại, khôi phục, "
            "kích hoạt, tài khoản, danh tính, truy cập, hai bước, hai yếu tố, lấy lại"
        ),
        ask="nhập, sử dụng, dùng, dưới đây, sau đây, đây là, sao chép, bên dưới, vui lòng",
        limit=(
            "hiệu lực, hết hạn, phút, giờ, không chia sẻ, bất kỳ ai, bỏ qua, không yêu cầu, "
            "tuyệt đối"
        ),
        other=(
            "đơn hàng, mã đơn, hóa đơn, hoá đơn, biên lai, vé, vận đơn, mã vận, giao hàng, "
            "theo dõi, kiện hàng, điện thoại, =sđt, liên hệ, gọi, khách hàng, tham chiếu, "
            "số tiền, tổng, giá, mã bưu, lỗi, mã lỗi, mã số thuế, số tài khoản, thẻ, đường, "
            "thanh toán, giao dịch, phiên bản, số lượng, hotline, =vnd, mã sản phẩm"
        ),
        gift="giảm giá, khuyến mãi, khuyến mại, phiếu, quà, ưu đãi, mã giảm, mã giới thiệu",
        standing="mật khẩu, tên người dùng, tên đăng nhập, mã dự phòng, mã sao lưu",
        event="cuộc họp, đặt phòng, chuyến bay, khách sạn, sự kiện, đặt chỗ, lịch hẹn",
        common=(
            "của, bạn, và, cho, để, là, không, này, nếu, với, trong, đã, được, tôi, xin chào, "
            "cảm, ơn, quý, từ, một, có"
        ),
    ),
    "id": Words(
        code=(
            "kode, =otp, sekali pakai, =pin, kata sandi sekali, angka verifikasi, nomor verifikasi"
        ),
        purpose=(
            "verifik, konfirm, masuk, login, keamanan, daftar, pendaftaran, reset, atur ulang, "
            "setel ulang, pulih, aktiv, autent, identitas, akun, akses, dua langkah, dua faktor"
        ),
        ask="masukkan, gunakan, ketik, berikut, di bawah, adalah, inilah, salin, silakan",
        limit=(
            "berlaku, kedaluwarsa, kadaluarsa, menit, jam, jangan, siapa pun, siapapun, "
            "abaikan, tidak meminta, bagikan"
        ),
        other=(
            "pesanan, faktur, tagihan, struk, kuitansi, tiket, resi, paket, kirim, lacak, "
            "telepon, =telp, hubungi, pelanggan, referensi, jumlah, total, harga, kode pos, "
            "kesalahan, galat, npwp, rekening, anggota, versi, produk, halaman, berakhir, "
            "kartu, jalan, =jl, kamar, pembayaran, transaksi, saldo, poin, invoice"
        ),
        gift="diskon, promo, kupon, voucher, hadiah, penawaran, potongan, kode referal",
        standing="kata sandi, password, nama pengguna, sandi, kode cadangan, kode pemulihan",
        event="rapat, reservasi, pemesanan, penerbangan, perjalanan, hotel, acara, janji",
        common=(
            "yang, dan, anda, untuk, di, ini, dengan, tidak, dari, ke, jika, kami, atau, akan, "
            "telah, halo, terima, kasih, pada, kamu, adalah"
        ),
    ),
    "ms": Words(
        code="kod, =otp, sekali guna, =pin, kata laluan sekali",
        purpose=(
            "pengesahan, sahkan, log masuk, keselamatan, daftar, tetapkan semula, set semula, "
            "pulih, aktif, identiti, akaun, akses"
        ),
        ask="masukkan, gunakan, taip, berikut, di bawah, ialah, adalah",
        limit="sah, tamat, minit, jam, jangan, sesiapa, abaikan, tidak meminta",
        other=(
            "pesanan, invois, resit, tiket, bungkusan, penghantaran, jejak, telefon, hubungi, "
            "pelanggan, rujukan, jumlah, harga, poskod, ralat, akaun bank, kad, jalan, "
            "bayaran, transaksi"
        ),
        gift="diskaun, kupon, baucar, hadiah, tawaran",
        standing="kata laluan, nama pengguna",
        event="mesyuarat, tempahan, penerbangan, hotel, acara",
        common=(
            "yang, dan, anda, untuk, di, ini, dengan, tidak, dari, ke, jika, kami, atau, akan, "
            "telah, sila, terima, kasih, pada, sekiranya"
        ),
    ),
    "tl": Words(
        code="~code, kodigo, =otp, isang beses",
        purpose="beripik, i verify, kumpirm, mag log, seguridad, rehistro, i reset, account",
        ask="ilagay, gamitin, i type, sumusunod, nasa ibaba, narito",
        limit="wasto, mag e expire, mawawalan, minuto, oras, huwag, kaninuman, balewalain",
        other="order, resibo, tiket, telepono, halaga, kabuuan, presyo, bayad",
        gift="diskwento, kupon, regalo",
        standing="password",
        common=(
            "ang, ng, sa, na, mga, iyong, mo, ito, para, at, kung, hindi, ay, po, salamat, "
            "kami, ikaw"
        ),
    ),
    "th": Words(
        code="~รหัส, ~โค้ด, ~โอทีพี, ~รหัสยืนยัน, ~รหัส otp, ~พิน",
        purpose=(
            "~ยืนยัน, ~เข้าสู่ระบบ, ~ความปลอดภัย, ~ลงทะเบียน, ~รีเซ็ต, ~กู้คืน, ~เปิดใช้งาน, ~ตัวตน, "
            "~บัญชี, ~ตรวจสอบ, ~สองขั้น, ~ครั้งเดียว"
        ),
        ask="~กรอก, ~ใช้, ~ป้อน, ~ต่อไปนี้, ~ด้านล่าง, ~ใส่, ~คือ, ~คัดลอก",
        limit=("~หมดอายุ, ~มีอายุ, ~นาที, ~ชั่วโมง, ~อย่า, ~ห้าม, ~ผู้อื่น, ~เพิกเฉย, ~ไม่ได้ร้องขอ, ~ภายใน"),
        other=(
            "~คำสั่งซื้อ, ~ใบแจ้งหนี้, ~ใบเสร็จ, ~ตั๋ว, ~พัสดุ, ~จัดส่ง, ~ติดตาม, ~โทร, ~ลูกค้า, "
            "~อ้างอิง, ~จำนวนเงิน, ~ยอดรวม, ~ราคา, ~ไปรษณีย์, ~รหัสไปรษณีย์, ~ข้อผิดพลาด, "
            "~เลขที่บัญชี, ~บัตร, ~ถนน, ~ชำระ, ~ธุรกรรม, ~เวอร์ชัน, ~บาท, ~รหัสสินค้า, "
            "~รหัสพนักงาน, ~ref"
        ),
        gift="~ส่วนลด, ~คูปอง, ~ของขวัญ, ~โปรโมชัน, ~โปรโมชั่น, ~รหัสส่วนลด, ~รหัสแนะนำ",
        standing="~รหัสผ่าน, ~ชื่อผู้ใช้, ~รหัสสำรอง, ~รหัสกู้คืนสำรอง",
        event="~ประชุม, ~การจอง, ~เที่ยวบิน, ~โรงแรม, ~กิจกรรม, ~นัดหมาย",
        common="~ของ, ~คุณ, ~และ, ~ที่, ~ใน, ~นี้, ~ไม่, ~จาก, ~หาก, ~ให้, ~ได้, ~เรา",
    ),
    "lo": Words(
        code="~ລະຫັດ, ~ໂຄດ",
        purpose="~ຢືນຢັນ, ~ເຂົ້າສູ່ລະບົບ, ~ຄວາມປອດໄພ, ~ລົງທະບຽນ, ~ບັນຊີ",
        ask="~ປ້ອນ, ~ໃຊ້, ~ຕໍ່ໄປນີ້, ~ລຸ່ມ",
        limit="~ໝົດອາຍຸ, ~ນາທີ, ~ຊົ່ວໂມງ, ~ຢ່າ",
        other="~ຄຳສັ່ງຊື້, ~ໃບແຈ້ງ, ~ໂທ, ~ລາຄາ, ~ລວມ, ~ໄປສະນີ",
        gift="~ສ່ວນຫຼຸດ, ~ຂອງຂວັນ",
        standing="~ລະຫັດຜ່ານ",
        common="~ຂອງ, ~ທ່ານ, ~ແລະ, ~ທີ່, ~ນີ້, ~ບໍ່",
    ),
    "km": Words(
        code="~កូដ, ~លេខសម្ងាត់ម្តង, ~លេខកូដ",
        purpose="~ផ្ទៀងផ្ទាត់, ~បញ្ជាក់, ~ចូល, ~សុវត្ថិភាព, ~ចុះឈ្មោះ, ~គណនី",
        ask="~បញ្ចូល, ~ប្រើ, ~ខាងក្រោម",
        limit="~ផុតកំណត់, ~នាទី, ~ម៉ោង, ~កុំ",
        other="~ការបញ្ជាទិញ, ~វិក្កយបត្រ, ~ទូរសព្ទ, ~តម្លៃ, ~សរុប",
        gift="~បញ្ចុះតម្លៃ, ~អំណោយ",
        standing="~ពាក្យសម្ងាត់",
        common="~របស់, ~អ្នក, ~និង, ~នេះ, ~មិន, ~ក្នុង",
    ),
    "my": Words(
        code="~ကုဒ်, ~ကုတ်",
        purpose="~အတည်ပြု, ~ဝင်ရောက်, ~လုံခြုံ, ~အကောင့်, ~မှတ်ပုံတင်",
        ask="~ထည့်, ~အသုံးပြု, ~အောက်ပါ",
        limit="~မိနစ်, ~နာရီ, ~သက်တမ်း",
        other="~အမှာစာ, ~ဖုန်း, ~စျေးနှုန်း, ~စုစုပေါင်း",
        gift="~လျှော့စျေး, ~လက်ဆောင်",
        standing="~စကားဝှက်",
        common="~သင်, ~သည်, ~ကို, ~နှင့်, ~ဤ, ~အတွက်",
    ),
    "sw": Words(
        code="msimbo, nambari ya uthibitisho, nambari ya siri ya, kodi ya, =otp, misimbo",
        purpose=(
            "uthibitish, thibitish, kuthibitish, ingia, kuingia, usalama, usajili, weka upya, "
            "rejesha, akaunti"
        ),
        ask="weka, ingiza, tumia, ufuatao, hapa chini, huu",
        limit="halali, unaisha, dakika, saa, usishiriki, mtu yeyote, puuza",
        other=(
            "agizo, ankara, risiti, tiketi, kifurushi, simu, mteja, jumla, bei, kosa, kadi, malipo"
        ),
        gift="punguzo, kuponi, zawadi",
        standing="nenosiri, neno la siri",
        common=(
            "na, ya, wa, kwa, ni, yako, hii, hiyo, katika, au, kama, huu, asante, tafadhali, "
            "wako, la, za"
        ),
    ),
    "am": Words(
        code="~ኮድ",
        purpose="~ማረጋገጫ, ~መግቢያ, ~ደህንነት, ~ምዝገባ, ~መለያ",
        ask="~ያስገቡ, ~ይጠቀሙ, ~የሚከተለውን",
        limit="~ደቂቃ, ~ሰዓት, ~ያበቃል, ~አያጋሩ",
        other="~ትዕዛዝ, ~ደረሰኝ, ~ስልክ, ~ዋጋ, ~ጠቅላላ",
        gift="~ቅናሽ, ~ስጦታ",
        standing="~የይለፍ ቃል",
        common="~እና, ~ነው, ~የእርስዎ, ~ይህ, ~ለ, ~ከ",
    ),
}
