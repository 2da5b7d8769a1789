/**
 * The gateways that the program knows, one folder each: `gateways/<id>/` with `profile.json` and `token.bin`. `local` is its own, and
 * its folder is the whole data directory (specification, "Hosts that exist").
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { freeId, idFromName } from '../../../protocol/ids.ts';
import { formatted, object, oneOf, text } from '../../../protocol/shapes/schema.ts';
import { shape, type ValueOf } from '../../../protocol/shapes/shape.ts';
import { mkdirDurable, namesIn, readJson, writeFileAtomic } from '../../../storage/files/atomic-file.ts';
import { Layout } from '../../../storage/layout.ts';

export const LOCAL = 'local';
const ID = /^[a-z0-9][a-z0-9_-]{0,62}$/;

/** `profile.json`. `url`: where it is; for `local` where it listened last. */
const PROFILE = shape(
  object(
    { kind: oneOf('daemon', 'desktop', 'plugin'), label: text, createdAt: text },
    { url: formatted('web address', 'an address of the web') },
  ),
);
export type Profile = { id: string } & ValueOf<typeof PROFILE>;

/** A gateway that cannot be added, with what to do. */
export class EntryError extends Error {}

export class Gateways {
  readonly #dir: string;

  constructor(userData: string) {
    this.#dir = join(userData, 'gateways');
  }

  layout(id: string): Layout {
    return new Layout(join(this.#dir, id));
  }

  /** Our own first, then the others by label. What is damaged or was put there by hand is left out. */
  async list(): Promise<Profile[]> {
    const names = (await namesIn(this.#dir)).filter((name) => ID.test(name) && name !== LOCAL);
    const others = await Promise.all(names.map((name) => this.#read(name)));
    const found = others.filter((profile): profile is Profile => profile?.url !== undefined);
    return [await this.local(), ...found.sort((a, b) => a.label.localeCompare(b.label))];
  }

  /** Of any folder; null where it says nothing useful. */
  async #read(id: string): Promise<Profile | null> {
    const stored = PROFILE.part(await readJson(this.layout(id).profile, null).catch(() => null));
    return stored && { id, ...stored };
  }

  /** Our own; made with the first start. */
  async local(): Promise<Profile> {
    const stored = await this.#read(LOCAL);
    if (stored !== null) return stored;
    const made: Profile = { id: LOCAL, kind: 'desktop', label: 'This computer', createdAt: new Date().toISOString() };
    await this.#write(made);
    return made;
  }

  /** Notes where our own gateway listens, so that it comes back there: pages are known by their address. */
  async noteAddress(url: string): Promise<void> {
    const profile = await this.local();
    if (profile.url !== url) await this.#write({ ...profile, url });
  }

  /** Another gateway, by its address; `url` was checked by `addressOf`. */
  async add(url: string, label: string): Promise<Profile> {
    const taken = await namesIn(this.#dir);
    const id = freeId(idFromName(label) || 'gateway', (one) => one === LOCAL || taken.includes(one));
    const profile: Profile = { id, kind: 'daemon', label, url, createdAt: new Date().toISOString() };
    await this.#write(profile);
    return profile;
  }

  /** Forgets a gateway and its token. Our own stays. */
  async remove(id: string): Promise<void> {
    if (id !== LOCAL && ID.test(id)) await rm(join(this.#dir, id), { recursive: true, force: true });
  }

  async #write(profile: Profile): Promise<void> {
    const { dataDir, profile: path } = this.layout(profile.id);
    await mkdirDurable(dataDir);
    await writeFileAtomic(path, `${JSON.stringify(profile, null, 2)}\n`);
  }
}

/** The address of a gateway as it is kept, without a path. Throws `EntryError`. */
export function addressOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '')
    throw new EntryError('The address must be one such as https://gateway.example.org or http://127.0.0.1:8787.');
  return url.origin;
}

/** Whether others on the network can read what is sent there. */
export function isOpenToNetwork(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  const isHere = hostname === 'localhost' || hostname.endsWith('.localhost') || /^(127\.|\[::1\])/.test(hostname);
  return protocol === 'http:' && !isHere;
}
