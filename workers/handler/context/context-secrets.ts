/** The secrets of an app in its thread: gives them to handlers, and takes their values out of what leaves the thread. */

import { appOfKey, workspaceOfKey } from '../../../protocol/ids.ts';
import { isSecretName, setSecretCommand } from '../../../protocol/secret-names.ts';
import type { Redactor } from '../../../protocol/text/redactor.ts';
import type { FrameOf } from '../../../protocol/wire/frames.ts';
import { effect } from '../effects.ts';
import { AskError } from '../handler-errors.ts';

/** `ctx.secrets`, the same for all calls. */
export type SecretsOfContext = { readonly get: (name: unknown) => Promise<string> };

const { freeze } = Object;

export class ActorSecrets {
  readonly redactor: Redactor;
  readonly context: SecretsOfContext = freeze({
    get: async (name: unknown) => this.#get(name),
  });
  readonly #key: string;
  #values = new Map<string, string>();
  /** Null when all are readable. */
  #unreadable: readonly string[] | null = [];
  #fault = '';

  /** `key` is the key of the app's data: its id, or that of a draft. */
  constructor(key: string, redactor: Redactor) {
    this.#key = key;
    this.redactor = redactor;
  }

  received([, values, unreadable, fault]: FrameOf<'secrets'>): void {
    this.#values = new Map(values);
    this.#unreadable = unreadable;
    this.#fault = fault;
    this.redactor.hide(values);
  }

  #get(name: unknown): string {
    effect();
    if (typeof name !== 'string' || !isSecretName(name))
      throw new AskError({
        code: 'BAD_REQUEST',
        message: 'ctx.secrets.get takes a name of letters, digits and "_", not starting with a digit.',
      });
    const value = this.#values.get(name);
    if (value !== undefined) return value;
    const workspace = workspaceOfKey(this.#key);
    const command = setSecretCommand(appOfKey(this.#key), name, workspace);
    if (this.#unreadable === null || this.#unreadable.includes(name))
      throw new AskError({
        code: 'SECRET_UNREADABLE',
        message: `The secret "${name}" cannot be read. ${this.#fault} The command is: ${command}`,
      });
    const owner = workspace === undefined ? 'The app' : 'The draft';
    throw new AskError({
      code: 'UNKNOWN_SECRET',
      message: `${owner} has no secret "${name}". Set it with: ${command}`,
    });
  }
}
