/**
 * Reads what programs say of themselves at the https address by which they name themselves, in place of registering (client ID
 * metadata documents; specification, "Connected programs").
 */
import { SvcError } from '../../../protocol/errors.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { EgressSettings } from '../../../protocol/rules/egress.ts';
import { isRecord } from '../../../protocol/shapes/shape.ts';
import { joinSignals } from '../../../protocol/signals.ts';
import { WebClient } from '../../web-client.ts';
import type { Client } from '../records.ts';
import { saidOf } from './clients.ts';

/** People of the gateway name these addresses, who may not look around in its networks with them. */
const PRIVATE = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12', '192.0.0.0/24'],
  ...['192.168.0.0/16', '198.18.0.0/15', '224.0.0.0/3', '::/96', '64:ff9b::/96', '100::/64', 'fc00::/7', 'fe80::/10'],
  ...['ff00::/8'],
];

/** A document, which is asked for again later; those that were read first make room. */
type Known = { client: Promise<Client>; until: number };

export class ClientDocuments {
  /** False where the configuration lets the gateway connect to nothing. Programs register then. */
  readonly areRead: boolean;
  readonly #web: Pick<WebClient, 'open'>;
  readonly #now: () => number;
  readonly #known = new Map<string, Known>();

  constructor(
    egress: EgressSettings,
    port: () => number | null,
    web: Pick<WebClient, 'open'> = new WebClient({ egress: { allow: [], deny: [...egress.deny, ...PRIVATE] }, port }),
    now: () => number = Date.now,
  ) {
    this.areRead = !egress.deny.includes('*');
    this.#web = web;
    this.#now = now;
  }

  /** The program of an address. Rejects with `BAD_REQUEST` and `FETCH_FAILED`. */
  find(id: string): Promise<Client> {
    const known = this.#known.get(id);
    if (known !== undefined && known.until > this.#now()) return known.client;
    const client = this.#read(id);
    client.catch(() => this.#known.delete(id));
    this.#known.delete(id);
    const [oldest] = this.#known.keys();
    if (oldest !== undefined && this.#known.size >= LIMITS.clientDocuments) this.#known.delete(oldest);
    this.#known.set(id, { client, until: this.#now() + LIMITS.clientDocumentMs });
    return client;
  }

  async #read(id: string): Promise<Client> {
    if (!isDocumentAddress(id) || !this.areRead) throw unread('its client_id is no address that may be read');
    const { signal, release } = joinSignals([], LIMITS.clientDocumentReadMs);
    try {
      const chunks: Buffer[] = [];
      let size = 0;
      // Another address must not answer for this one.
      for await (const chunk of await this.#web.open(id, signal, { follows: false })) {
        size += (chunk as Buffer).length;
        if (size > LIMITS.oauthBodyBytes) throw unread('its document is too large');
        chunks.push(chunk as Buffer);
      }
      return clientOf(id, Buffer.concat(chunks).toString(), this.#now());
    } catch (error) {
      throw error instanceof SvcError ? error : unread((error as Error).message);
    } finally {
      release();
    }
  }
}

/** Whether a program names itself by an address: https, with a path, and without what could be written in two ways. */
export function isDocumentAddress(id: string): boolean {
  const url = id.startsWith('https://') && URL.canParse(id) ? new URL(id) : null;
  return url !== null && url.href === id && url.pathname !== '/' && url.hash === '' && url.username === '';
}

function clientOf(id: string, json: string, now: number): Client {
  const said: unknown = JSON.parse(json);
  if (!isRecord(said) || said.client_id !== id) throw unread('its document is about another program');
  return { id, ...saidOf(said), createdAt: now, keptUntil: now + LIMITS.clientDocumentMs, connected: false };
}

function unread(why: string): SvcError {
  return new SvcError('BAD_REQUEST', `What the program says of itself cannot be read: ${why}.`, { path: 'client_id' });
}
