/** Keeps the secrets of apps and drafts on disk and their values in memory, and reports changes (specification, "Secrets"). */
import type { Logger } from 'pino';
import { SvcError } from '../protocol/errors.ts';
import { appOfKey, workspaceOfKey } from '../protocol/ids.ts';
import { LIMITS } from '../protocol/limits.ts';
import { checkSecretName, checkSecretValue, type SecretRecord, setSecretCommand } from '../protocol/secret-names.ts';
import { Redactor } from '../protocol/text/redactor.ts';
import { unknownApp } from '../storage/apps/registry.ts';
import { inParallel, isMissing } from '../storage/files/atomic-file.ts';
import type { Layout } from '../storage/layout.ts';
import {
  DamagedSecrets,
  newSecretKey,
  readSecretKey,
  readSecrets,
  type StoredSecret,
  seal,
  unseal,
  writeSecretKey,
  writeSecrets,
} from '../storage/secret-files.ts';
import { SerialByKey } from './serial.ts';

type SecretsOptions = {
  layout: Layout;
  /** Throws where there is no such app, or none of this key here. */
  demand(key: string): void;
  log: Logger;
  /** Milliseconds since the epoch. */
  now?: () => number;
};

/** `value` is null when it cannot be decrypted. */
type Secret = StoredSecret & { value: string | null };

/** The secrets of an app. `damage` says why its file cannot be used; the file then stays unchanged. */
type Known = { secrets: ReadonlyMap<string, Secret>; damage: string | null; redactor: Redactor };

/** The secrets for the threads of an app. `fault` says why the `unreadable` ones, or all if that is null, have no value. */
export type GivenSecrets = { values: [name: string, value: string][]; unreadable: string[] | null; fault: string };

const READS_AT_ONCE = 16;
const NO_SECRETS: Known = { secrets: new Map(), damage: null, redactor: new Redactor() };
/** For the work on the key, which all apps share; no app can be called so. */
const KEY = '';

export class Secrets {
  readonly #options: SecretsOptions;
  readonly #serial = new SerialByKey();
  /** By the key of the app or draft; those without secrets are not in it. */
  readonly #known = new Map<string, Known>();
  readonly #listeners: ((key: string) => void)[] = [];
  #key: Buffer | null = null;
  /** Why there is no key. */
  #keyFault = '';

  private constructor(options: SecretsOptions) {
    this.#options = options;
  }

  static async open(options: SecretsOptions): Promise<Secrets> {
    const secrets = new Secrets(options);
    try {
      secrets.#key = await readSecretKey(options.layout.secretKey);
      secrets.#keyFault = 'The key of the secrets, secrets.key, is missing from the data directory.';
    } catch (error) {
      secrets.#keyFault = sentenceOf(error);
    }
    return secrets;
  }

  /** Reads those of these apps. What cannot be read is logged, and said to whoever asks for it. */
  async serve(apps: Iterable<string>): Promise<void> {
    await inParallel(apps, READS_AT_ONCE, (app) => this.load(app));
  }

  /**
   * The value; undefined when the app has no secret of this name. Throws `SECRET_UNREADABLE`. `key` is the id of a live app, or
   * the key of a draft.
   */
  get(key: string, name: string): string | undefined {
    const known = this.#of(key);
    const secret = known.secrets.get(name);
    if (secret === undefined && known.damage === null) return undefined;
    if (typeof secret?.value === 'string') return secret.value;
    throw unreadable(`The secret "${name}" of "${appOfKey(key)}" cannot be read. ${this.#faultOf(known)}`);
  }

  /** Sorted by name. Throws `SECRET_UNREADABLE` when their file is damaged. */
  list(key: string): SecretRecord[] {
    const { secrets, damage } = this.#of(key);
    if (damage !== null) throw unreadable(damage);
    return [...secrets]
      .map(([name, { value, updatedAt }]): SecretRecord => {
        return { name, state: value === null ? 'unreadable' : 'set', updatedAt };
      })
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Takes the values of the app out of texts and JSON. */
  redactor(key: string): Redactor {
    return this.#of(key).redactor;
  }

  /** The secrets for the threads of the app; null when it had none since the gateway started. */
  given(key: string): GivenSecrets | null {
    const known = this.#known.get(key);
    if (known === undefined) return null;
    const values: [string, string][] = [];
    const unreadable: string[] = [];
    for (const [name, { value }] of known.secrets) value === null ? unreadable.push(name) : values.push([name, value]);
    return { values, unreadable: known.damage === null ? unreadable : null, fault: this.#faultOf(known) };
  }

  /** Tells of the keys whose secrets changed. */
  onChange(listener: (key: string) => void): void {
    this.#listeners.push(listener);
  }

  /**
   * Stores a value, durably. Rejects with `BAD_REQUEST`, `PAYLOAD_TOO_LARGE`, `UNKNOWN_APP`, `CONFLICT` when there are
   * `LIMITS.secrets`, `SECRET_UNREADABLE` when a damaged file would be lost.
   */
  async set(key: string, name: string, value: unknown): Promise<SecretRecord> {
    checkSecretName(name);
    checkSecretValue(value);
    return await this.#change(key, async (known) => {
      if (known.secrets.size >= LIMITS.secrets && !known.secrets.has(name))
        throw new SvcError('CONFLICT', `There are already ${LIMITS.secrets} secrets, the maximum. Remove one first.`);
      const sealed = seal(await this.#keyToWriteWith(), key, name, value);
      const updatedAt = (this.#options.now ?? Date.now)();
      await this.#store(key, known, new Map(known.secrets).set(name, { sealed, updatedAt, value }));
      return { name, state: 'set', updatedAt };
    });
  }

  /** Rejects with `UNKNOWN_SECRET`, `UNKNOWN_APP` or `SECRET_UNREADABLE`. */
  async remove(key: string, name: string): Promise<void> {
    checkSecretName(name);
    await this.#change(key, async (known) => {
      const rest = new Map(known.secrets);
      if (!rest.delete(name)) throw unknownSecret(key, name);
      await this.#store(key, known, rest);
    });
  }

  /** Reads what is on the disk. */
  load(key: string): Promise<void> {
    return this.#serial.run(key, async () => {
      this.#known.delete(key);
      try {
        const stored = await readSecrets(this.#options.layout.app(key));
        if (stored.size === 0) return;
        const open = (name: string, { sealed }: StoredSecret) => this.#key && unseal(this.#key, key, name, sealed);
        const secrets = [...stored].map(([name, secret]) => [name, { ...secret, value: open(name, secret) }] as const);
        this.#know(key, new Map(secrets));
      } catch (error) {
        const damage = `${sentenceOf(error)} Put it back from a backup and restart the gateway, or delete it and set the secrets again.`;
        this.#known.set(key, { secrets: new Map(), damage, redactor: new Redactor() });
      }
      const known = this.#of(key);
      const lost = [...known.secrets.values()].some(({ value }) => value === null);
      if (known.damage !== null || lost)
        this.#options.log.warn({ app: key }, `Secrets cannot be read. ${this.#faultOf(known)}`);
    });
  }

  /** The app or draft is gone, with its folder, or another node has it. */
  forget(key: string): Promise<void> {
    return this.#serial.run(key, async () => void this.#known.delete(key));
  }

  #of(key: string): Known {
    return this.#known.get(key) ?? NO_SECRETS;
  }

  #know(key: string, secrets: ReadonlyMap<string, Secret>): void {
    const redactor = this.#known.get(key)?.redactor ?? new Redactor();
    redactor.hide([...secrets].flatMap(([name, { value }]) => (value === null ? [] : [[name, value] as const])));
    this.#known.set(key, { secrets, damage: null, redactor });
  }

  #change<T>(key: string, work: (known: Known) => Promise<T>): Promise<T> {
    return this.#serial.run(key, async () => {
      this.#options.demand(key);
      const known = this.#of(key);
      if (known.damage !== null) throw unreadable(known.damage);
      return await work(known);
    });
  }

  async #store(key: string, known: Known, secrets: ReadonlyMap<string, Secret>): Promise<void> {
    const stored = new Map([...secrets].map(([name, { sealed, updatedAt }]) => [name, { updatedAt, sealed }]));
    try {
      await writeSecrets(this.#options.layout.app(key), stored);
    } catch (error) {
      // Its folder was taken away meanwhile.
      throw isMissing(error) ? unknownApp(appOfKey(key)) : error;
    }
    this.#known.set(key, known === NO_SECRETS ? { ...known, redactor: new Redactor() } : known);
    this.#know(key, secrets);
    for (const listener of this.#listeners) listener(key);
  }

  /**
   * The key on the disk. One that was taken away while the gateway runs is put back, because what is stored needs it; the first one
   * is made. Rejects with `SECRET_UNREADABLE` when it is damaged: it may be mended by hand.
   */
  #keyToWriteWith(): Promise<Buffer> {
    const { secretKey } = this.#options.layout;
    return this.#serial.run(KEY, async () => {
      let key: Buffer | null;
      try {
        key = await readSecretKey(secretKey);
      } catch (error) {
        if (!(error instanceof DamagedSecrets)) throw error;
        const advice = 'Put the right one back and restart the gateway, or delete it and set the secrets again.';
        throw unreadable(`${error.message} ${advice}`);
      }
      if (key === null) {
        key = this.#key ?? newSecretKey();
        await writeSecretKey(secretKey, key);
      }
      this.#key = key;
      return key;
    });
  }

  #faultOf({ damage }: Known): string {
    if (damage !== null) return damage;
    const why = this.#key === null ? this.#keyFault : 'It is damaged, or was stored with another key than secrets.key.';
    return `${why} Put the right secrets.key back and restart the gateway, or set the secret again.`;
  }
}

export function unknownSecret(key: string, name: string): SvcError {
  const app = appOfKey(key);
  const command = setSecretCommand(app, name, workspaceOfKey(key));
  return new SvcError('UNKNOWN_SECRET', `"${app}" has no secret "${name}". Set it with: ${command}`);
}

function unreadable(message: string): SvcError {
  return new SvcError('SECRET_UNREADABLE', message);
}

/** Node's own messages name paths. */
function sentenceOf(error: unknown): string {
  if (error instanceof DamagedSecrets) return error.message;
  return `A file of the secrets cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'}).`;
}
