/** Signs a text with HMAC-SHA256 at once: `crypto.subtle` gives a promise, and is missing at addresses without TLS. Pure. */

const BLOCK = 64;
const WORDS = BLOCK / 4;

/** The first 32 bits of the fractions of roots of the first primes, as FIPS 180-4 defines them. */
const fraction = (root: number): number => ((root - Math.floor(root)) * 2 ** 32) | 0;
const PRIMES: number[] = [];
for (let n = 2; PRIMES.length < BLOCK; n++) if (PRIMES.every((prime) => n % prime !== 0)) PRIMES.push(n);
const K = PRIMES.map((prime) => fraction(Math.cbrt(prime)));
const START = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));

const turned = (word: number, by: number): number => (word >>> by) | (word << (32 - by));

/** One block of `data` from `at` on, into `state`. */
function compress(state: Int32Array, data: DataView, at: number): void {
  const words = new Int32Array(BLOCK);
  for (let t = 0; t < WORDS; t++) words[t] = data.getInt32(at + 4 * t);
  for (let t = WORDS; t < BLOCK; t++) {
    const [one = 0, two = 0] = [words[t - 15], words[t - 2]];
    const small = turned(one, 7) ^ turned(one, 18) ^ (one >>> 3);
    const other = turned(two, 17) ^ turned(two, 19) ^ (two >>> 10);
    words[t] = (words[t - 16] as number) + small + (words[t - 7] as number) + other;
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
  for (let t = 0; t < BLOCK; t++) {
    const high = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
    const first = (h + high + ((e & f) ^ (~e & g)) + (K[t] as number) + (words[t] as number)) | 0;
    const low = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22);
    const second = (low + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [a, b, c, d, e, f, g, h] = [(first + second) | 0, a, b, c, (d + first) | 0, e, f, g];
  }
  [a, b, c, d, e, f, g, h].forEach((word, at) => {
    state[at] = (state[at] as number) + word;
  });
}

function sha256(bytes: Uint8Array): Uint8Array {
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / BLOCK) * BLOCK);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const data = new DataView(padded.buffer);
  data.setUint32(padded.length - 4, bytes.length * 8);
  const state = Int32Array.from(START);
  for (let at = 0; at < padded.length; at += BLOCK) compress(state, data, at);
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((word, at) => {
    digest.setInt32(4 * at, word);
  });
  return new Uint8Array(digest.buffer);
}

function joined(one: Uint8Array, other: Uint8Array): Uint8Array {
  const all = new Uint8Array(one.length + other.length);
  all.set(one);
  all.set(other, one.length);
  return all;
}

/** In hex. The key is one block at most, which is 64 bytes; both are taken as UTF-8. */
export function hmac(key: string, text: string): string {
  const encoder = new TextEncoder();
  const block = new Uint8Array(BLOCK);
  block.set(encoder.encode(key));
  const masked = (mask: number): Uint8Array => block.map((byte) => byte ^ mask);
  const inner = sha256(joined(masked(0x36), encoder.encode(text)));
  return [...sha256(joined(masked(0x5c), inner))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
