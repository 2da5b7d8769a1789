/** Finds in a folder what publishing would refuse its handlers for: the gates of the gateway, before it is asked. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as others } from 'node:timers/promises';
import { type ErrorBody, SvcError } from '../../protocol/errors.ts';
import type { HandlerSource, KnownModules } from '../../protocol/rules/gates/check-handlers.ts';
import type { DescribedApp } from '../gateway/api.ts';

const AUTOMATION = /^automations\/([^/]+)\/automation\.json$/;

export class GateCheck {
  readonly #folder: string;
  readonly #known: KnownModules = new Map();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * The error that publishing `files` of the app would end with; null when its handlers pass. Other things go on meanwhile. Null
   * too as soon as `isStale` says so.
   */
  async check(app: DescribedApp, files: string[], isStale: () => boolean): Promise<ErrorBody | null> {
    const { handlerCheck } = await import('../../protocol/rules/gates/check-handlers.ts');
    const present = new Set(files);
    const automations = files.flatMap((path) => AUTOMATION.exec(path)?.[1] ?? []);
    const read = (file: string): HandlerSource =>
      present.has(file) ? this.#read(file) : { refused: 'does not exist' };
    const check = handlerCheck(read, app, automations, { known: this.#known });
    try {
      while (!check.next().done) {
        await others();
        if (isStale()) return null;
      }
      return null;
    } catch (error) {
      if (error instanceof SvcError) return error.toBody();
      throw error;
    }
  }

  #read(file: string): HandlerSource {
    try {
      return { text: readFileSync(join(this.#folder, file), 'utf8') };
    } catch {
      // It was read a moment ago, to be sent: whatever is wrong with it now, the next look at the folder tells.
      return { refused: 'does not exist' };
    }
  }
}
