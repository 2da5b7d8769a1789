/** Passkeys without a browser: a device that makes and uses them, and the requests of a page around that. */
import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import type { Answer } from './gateway.ts';
import type { Origin } from './origins.ts';

type Key = { id: string; host: string; handle: string; privateKey: KeyObject };
/** What a page asks a device with. */
export type Options = { challenge: string; rpId?: string; rp?: { id: string }; user?: { id: string } };
/** What a device or its browser may say instead of the truth. */
export type Lies = {
  id?: string;
  origin?: string;
  host?: string;
  flags?: number;
  counter?: number;
  handle?: string;
  type?: string;
};

const USER_PRESENT = 1;
const USER_VERIFIED = 4;
const HAS_KEY = 0x40;
export const VERIFIED: number = USER_PRESENT | USER_VERIFIED;

/** An authenticator as Web Authentication describes it, with the browser in front of it. It counts its uses from `counter` on. */
export class Device {
  counter: number;
  #keys: Key[] = [];

  constructor(counter = 0) {
    this.counter = counter;
  }

  /** Makes a passkey for a page of `origin`, as `toJSON` of a browser gives it. `statement` is what is said of the device's maker. */
  make({ challenge, rp, user }: Options, origin: string, lies: Lies = {}, statement: Cbor[] = ['none', new Map()]) {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const id = lies.id === undefined ? randomBytes(16) : Buffer.from(lies.id, 'base64url');
    const host = lies.host ?? rp?.id ?? '';
    this.#keys.push({ id: id.toString('base64url'), host, handle: user?.id ?? '', privateKey });
    const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
    const cose = new Map<number, Cbor>([
      [1, 2],
      [3, -7],
      [-1, 1],
      [-2, Buffer.from(x, 'base64url')],
      [-3, Buffer.from(y, 'base64url')],
    ]);
    const data = this.#data(host, lies, HAS_KEY);
    const authData = Buffer.concat([data, Buffer.alloc(16), Buffer.from([0, id.length]), id, cbor(cose)]);
    const [fmt = '', attStmt = ''] = statement;
    const attestation = new Map<string, Cbor>(Object.entries({ fmt, attStmt, authData }));
    return this.#answer(id.toString('base64url'), {
      clientDataJSON: clientData(lies.type ?? 'webauthn.create', challenge, lies.origin ?? origin),
      attestationObject: cbor(attestation).toString('base64url'),
      transports: ['internal'],
    });
  }

  /** Uses the passkey that was made last. */
  use({ challenge, rpId = '' }: Options, origin: string, lies: Lies = {}) {
    const key = this.#keys.at(-1);
    assert.ok(key, 'The device has a passkey.');
    if (this.counter > 0) this.counter++;
    const data = this.#data(lies.host ?? rpId, lies, 0);
    const clientDataJSON = clientData(lies.type ?? 'webauthn.get', challenge, lies.origin ?? origin);
    const signed = Buffer.concat([data, sha256(Buffer.from(clientDataJSON, 'base64url'))]);
    return this.#answer(key.id, {
      clientDataJSON,
      authenticatorData: data.toString('base64url'),
      signature: sign('sha256', signed, key.privateKey).toString('base64url'),
      userHandle: lies.handle ?? key.handle,
    });
  }

  #data(host: string, { flags = VERIFIED, counter = this.counter }: Lies, more: number): Buffer {
    const count = Buffer.alloc(4);
    count.writeUInt32BE(counter);
    return Buffer.concat([sha256(host), Buffer.from([flags | more]), count]);
  }

  #answer<T>(id: string, response: T) {
    return { id, rawId: id, type: 'public-key', clientExtensionResults: {}, response };
  }
}

/** A page that got options, and can answer them: with the cookie that came with them, unless another one is given. */
export class Ceremony {
  readonly options: Options;
  readonly cookie: string;
  readonly #page: Origin;

  private constructor(page: Origin, answer: Answer) {
    assert.equal(answer.status, 200, answer.text);
    this.options = answer.json;
    this.cookie = String((answer.headers['set-cookie'] as string[])[0]).split(';')[0] as string;
    this.#page = page;
  }

  static async begin(page: Origin, path: string, body: object = {}): Promise<Ceremony> {
    return new Ceremony(page, await page.call('POST', path, { body }));
  }

  /** The origin of the page. */
  get origin(): string {
    return `http://${this.#page.host}`;
  }

  answer(path: string, body: object, cookie: string = this.cookie, headers: Record<string, string> = {}) {
    const cookies = [this.#page.cookie, cookie].filter((one) => one !== '').join('; ');
    return this.#page.call('POST', path, { body, headers: { cookie: cookies, ...headers } });
  }
}

/** The answer to a page whose user has its device make a passkey for the account that is signed in. */
export async function addPasskey(page: Origin, device: Device, name?: string): Promise<Answer> {
  const ceremony = await Ceremony.begin(page, '/svc/_auth/passkeys/options');
  const passkey = device.make(ceremony.options, ceremony.origin);
  return ceremony.answer('/svc/_auth/passkeys', { passkey, ...(name !== undefined && { name }) });
}

/** The answer to a page that signs in with the passkey of a device. */
export async function enterPasskey(page: Origin, device: Device, lies?: Lies): Promise<Answer> {
  const ceremony = await Ceremony.begin(page, '/svc/_auth/passkey/options');
  return ceremony.answer('/svc/_auth/passkey', { passkey: device.use(ceremony.options, ceremony.origin, lies) });
}

type Cbor = string | number | Buffer | Cbor[] | Map<string, Cbor> | Map<number, Cbor>;

/** As RFC 8949 encodes small values. */
function cbor(value: Cbor): Buffer {
  if (typeof value === 'number') return value < 0 ? head(1, -1 - value) : head(0, value);
  if (typeof value === 'string') return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (Buffer.isBuffer(value)) return Buffer.concat([head(2, value.length), value]);
  if (Array.isArray(value)) return Buffer.concat([head(4, value.length), ...value.map(cbor)]);
  return Buffer.concat([head(5, value.size), ...[...value].flatMap(([name, one]) => [cbor(name), cbor(one)])]);
}

function head(major: number, count: number): Buffer {
  if (count < 24) return Buffer.from([(major << 5) | count]);
  if (count < 256) return Buffer.from([(major << 5) | 24, count]);
  return Buffer.from([(major << 5) | 25, count >> 8, count & 255]);
}

function clientData(type: string, challenge: string, origin: string): string {
  return Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false })).toString('base64url');
}

function sha256(data: string | Buffer): Buffer {
  return createHash('sha256').update(data).digest();
}
