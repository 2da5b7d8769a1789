/** What people type, as the tools take it. */

/** "Cooking, italian ," is two tags. */
export const readTags = (text) =>
  [...new Set(text.split(',').map((tag) => tag.trim().toLowerCase().slice(0, 40).trim()))].filter(Boolean).slice(0, 20);

/** An address of the web, with or without its beginning; null when it is none. */
export function toAddress(text) {
  const address = text.trim();
  const whole = /^[a-z][a-z0-9+.-]*:\/\//i.test(address) ? address : `https://${address}`;
  try {
    const { href, protocol, hostname } = new URL(whole);
    return /^https?:$/.test(protocol) && /[.:]|^localhost$/.test(hostname) ? href : null;
  } catch {
    return null;
  }
}
