// Cloudflare Email Worker: hands every mail to Oncebox, and throws unless it is stored,
// so that the sending server keeps the mail and tries again. Only a mail for nobody is rejected.
//
//   oncebox source add cloudflare --scheme cloudflare-email --secret -
//   npx wrangler secret put ONCEBOX_SECRET        # the same secret
//   npx wrangler deploy                           # ONCEBOX_URL is in wrangler.toml

const encoder = new TextEncoder();
const UNROUTED = 406;
const TOO_LARGE = 413;

async function sign(secret, head, raw) {
  const signed = new Uint8Array(head.length + raw.length);
  signed.set(head);
  signed.set(raw, head.length);
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", encoder.encode(secret), algorithm, false, ["sign"]);
  const digest = new Uint8Array(await crypto.subtle.sign("HMAC", key, signed));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export default {
  async email(message, env) {
    const raw = new Uint8Array(await new Response(message.raw).arrayBuffer());
    const timestamp = String(Math.floor(Date.now() / 1000));
    const from = `<${message.from}>`;
    const to = `<${message.to}>`;
    const signature = await sign(env.ONCEBOX_SECRET, encoder.encode(`${timestamp}.${from}.${to}.`), raw);
    const answer = await fetch(env.ONCEBOX_URL, {
      method: "POST",
      redirect: "manual",
      headers: {
        "content-type": "message/rfc822",
        "x-oncebox-timestamp": timestamp,
        "x-oncebox-mail-from": from,
        "x-oncebox-rcpt-to": to,
        "x-oncebox-signature": signature,
      },
      body: raw,
    });
    if (answer.status === UNROUTED || answer.status === TOO_LARGE) {
      message.setReject("the mail was not accepted");
    } else if (answer.status !== 200) {
      throw new Error(`Oncebox answered ${answer.status}; the sender tries again`);
    }
  },
};
