/** Servers on loopback that take notices: one that speaks SMTP, one for webhooks and messages to browsers; both keep what came. */
import { spawnSync } from 'node:child_process';
import { createDecipheriv, createECDH, type ECDH, hkdfSync, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { inTime } from './waiting.ts';

/** What has come, in order; `next` waits for the first that was not taken yet. */
class Arrivals<T> {
  readonly all: T[] = [];
  #taken = 0;
  #wake: () => void = () => {};

  add(one: T): void {
    this.all.push(one);
    this.#wake();
  }

  async next(what: string): Promise<T> {
    while (this.#taken >= this.all.length)
      await inTime(new Promise<void>((resolve) => (this.#wake = resolve)), `the next ${what}`);
    return this.all[this.#taken++] as T;
  }
}

export type Mail = { from: string; to: string[]; login: string | null; headers: Map<string, string>; text: string };

export class MailServer {
  readonly mails: Arrivals<Mail> = new Arrivals<Mail>();
  /** It takes connections and says nothing. */
  isSilent = false;
  /** What it answers to a password. */
  login = '235 welcome';
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  constructor() {
    this.#server = createTcpServer((socket) => {
      this.#sockets.add(socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket)));
      if (!this.isSilent) this.#talk(socket);
    });
  }

  async listen(): Promise<number> {
    await once(this.#server.listen(0, '127.0.0.1'), 'listening');
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #talk(socket: Socket): void {
    let [received, isData] = ['', false];
    let mail: Pick<Mail, 'from' | 'to' | 'login'> = { from: '', to: [], login: null };
    const say = (line: string): void => void socket.write(`${line}\r\n`);
    const answer = (line: string): void => {
      const address = /<(.*?)>/.exec(line)?.[1] ?? '';
      if (/^EHLO/i.test(line)) say('250-loopback\r\n250-AUTH PLAIN\r\n250 8BITMIME');
      else if (/^AUTH PLAIN/i.test(line)) {
        mail.login = Buffer.from(line.split(' ')[2] ?? '', 'base64').toString();
        say(this.login);
      } else if (/^DATA/i.test(line)) {
        isData = true;
        say('354 go on');
      } else if (/^QUIT/i.test(line)) socket.end('221 bye\r\n');
      else {
        if (/^MAIL FROM/i.test(line)) mail = { ...mail, from: address, to: [] };
        if (/^RCPT TO/i.test(line)) mail.to.push(address);
        say('250 ok');
      }
    };
    say('220 loopback ESMTP');
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      received += chunk;
      for (;;) {
        const end = received.indexOf(isData ? '\r\n.\r\n' : '\r\n');
        if (end < 0) return;
        const part = received.slice(0, end);
        received = received.slice(end + (isData ? 5 : 2));
        if (!isData) answer(part);
        else {
          isData = false;
          this.mails.add({ ...mail, ...messageOf(part) });
          say('250 taken');
        }
      }
    });
  }
}

function messageOf(content: string): Pick<Mail, 'headers' | 'text'> {
  const [head = '', ...body] = content.split('\r\n\r\n');
  const lines = head.replace(/\r\n[ \t]+/g, ' ').split('\r\n');
  const headers = lines.map((line): [string, string] => {
    const at = line.indexOf(':');
    return [line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()];
  });
  return { headers: new Map(headers), text: body.join('\r\n\r\n').replaceAll('\r\n', '\n').trim() };
}

export type Posted = { path: string; headers: IncomingHttpHeaders; body: Buffer };

/** Takes whatever is posted to it; with a certificate over TLS. */
export class PostServer {
  readonly posts: Arrivals<Posted> = new Arrivals<Posted>();
  /** The status of its answers. */
  status = 200;
  readonly #server: Server;
  readonly #scheme: 'http' | 'https';

  constructor(certificate?: Certificate) {
    const listener = async (req: import('node:http').IncomingMessage, res: import('node:http').ServerResponse) => {
      const body = await buffer(req);
      res.writeHead(this.status, { location: '/elsewhere' }).end('an answer that names secret-things');
      this.posts.add({ path: req.url ?? '', headers: req.headers, body });
    };
    this.#scheme = certificate === undefined ? 'http' : 'https';
    this.#server = certificate === undefined ? createServer(listener) : createSecureServer(certificate, listener);
  }

  async listen(): Promise<string> {
    await once(this.#server.listen(0, '127.0.0.1'), 'listening');
    return `${this.#scheme}://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    (this.#server as unknown as { closeAllConnections(): void }).closeAllConnections();
  }
}

export type Certificate = { key: Buffer; cert: Buffer; file: string };

/** For 127.0.0.1, made by openssl in `folder`; null where that is missing. */
export function makeCertificate(folder: string): Certificate | null {
  const [key, file] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const names = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const made = spawnSync('openssl', ['req', '-x509', ...kind, ...names, '-keyout', key, '-out', file]);
  if (made.error !== undefined) return null;
  if (made.status !== 0) throw new Error(`openssl: ${made.stderr}`);
  return { key: readFileSync(key), cert: readFileSync(file), file };
}

/** A browser that agreed: its keys, and what it would show of a message (RFC 8188, RFC 8291). */
export class PushReceiver {
  readonly #pair: ECDH = createECDH('prime256v1');
  readonly #auth = randomBytes(16);

  constructor() {
    this.#pair.generateKeys();
  }

  subscription(endpoint: string) {
    const keys = { p256dh: this.#pair.getPublicKey('base64url'), auth: this.#auth.toString('base64url') };
    return { endpoint, expirationTime: null, keys };
  }

  /** The message in a body with the encoding `aes128gcm`, as JSON. */
  read(body: Buffer): unknown {
    const salt = body.subarray(0, 16);
    const idLength = body.readUInt8(20);
    const sender = body.subarray(21, 21 + idLength);
    const sealed = body.subarray(21 + idLength);
    const shared = this.#pair.computeSecret(sender);
    const keyInfo = Buffer.concat([Buffer.from('WebPush: info\0'), this.#pair.getPublicKey(), sender]);
    const derive = (key: Buffer, salt: Buffer, info: Buffer, length: number): Buffer =>
      Buffer.from(hkdfSync('sha256', key, salt, info, length));
    const secret = derive(shared, this.#auth, keyInfo, 32);
    const key = derive(secret, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16);
    const nonce = derive(secret, salt, Buffer.from('Content-Encoding: nonce\0'), 12);
    const decipher = createDecipheriv('aes-128-gcm', key, nonce).setAuthTag(sealed.subarray(-16));
    const plain = Buffer.concat([decipher.update(sealed.subarray(0, -16)), decipher.final()]);
    // The last record ends with a 2 and zeros.
    return JSON.parse(plain.subarray(0, plain.lastIndexOf(2)).toString());
  }
}
