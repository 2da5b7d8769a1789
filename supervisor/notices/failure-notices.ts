/** Tells people of failed runs, failed backups and quarantines, and of their end (specification, "Notices"). */
import type { RunRecord } from '../../protocol/automations/runs.ts';
import { isDraftKey } from '../../protocol/ids.ts';
import type { NoticeLinks } from './notice-links.ts';
import type { Notices } from './notices.ts';

type FailureNoticesOptions = {
  notices: Notices;
  links: NoticeLinks;
  /** The names of an app and of an automation, for people. */
  nameOf(app: string): string;
  automationName(ref: string): string;
};

const ONCE = 'You hear of it again when it works.';
const BACKUP = 'backup';

export class FailureNotices {
  readonly #options: FailureNoticesOptions;

  constructor(options: FailureNoticesOptions) {
    this.#options = options;
  }

  /** A run was cancelled or skipped: that says nothing. A chat's failure is shown to those who chat. */
  ran({ kind, ref, app, runId, state, error }: RunRecord): void {
    if (kind !== 'automation' || (state !== 'ok' && state !== 'error')) return;
    const { notices, links, nameOf, automationName } = this.#options;
    const key = `run ${ref}`;
    const about = () => ({
      kind: 'run' as const,
      app: { id: app, name: nameOf(app) },
      url: links.console(`runs/${runId}`),
    });
    if (state === 'ok') {
      const text = (since: number) => `It had failed since ${moment(since)}.`;
      notices.recovered(key, (since) => ({
        ...about(),
        title: `${automationName(ref)} works again`,
        text: text(since),
      }));
      return;
    }
    const text = `${error?.message ?? 'The run failed.'}\n\n${ONCE}`;
    notices.failed({ key, ...about(), title: `${automationName(ref)} failed`, text });
  }

  /** `failure` says why the backup failed; null for a good one. */
  backedUp(failure: string | null): void {
    const { notices, links } = this.#options;
    const about = () => ({ kind: 'backup' as const, app: null, url: links.console('system/backups') });
    if (failure !== null) {
      notices.failed({ key: BACKUP, ...about(), title: 'The backup failed', text: `${failure}\n\n${ONCE}` });
      return;
    }
    const text = (since: number) => `The last one is good and verified. They had failed since ${moment(since)}.`;
    notices.recovered(BACKUP, (since) => ({ ...about(), title: 'Backups work again', text: text(since) }));
  }

  /** The app takes no calls any more; `why` and how its thread ended the last time. Drafts are for their authors only. */
  gaveUp(app: string, why: string, lastExit: string | null): void {
    if (isDraftKey(app)) return;
    const last = lastExit === null ? '' : ` Last: ${lastExit}.`;
    const text = `Its calls are refused, because ${why}.${last}\n\nPush a repaired version, or: svc restart ${app}\n\n${ONCE}`;
    this.#options.notices.failed({ key: keyOf(app), ...this.#aboutApp(app), title: 'Quarantined', text });
  }

  /** A thread of the app runs. */
  started(app: string): void {
    const text = (since: number) => `It takes calls. It was quarantined since ${moment(since)}.`;
    this.#options.notices.recovered(keyOf(app), (since) => ({
      ...this.#aboutApp(app),
      title: 'Works again',
      text: text(since),
    }));
  }

  #aboutApp(app: string) {
    const { links, nameOf } = this.#options;
    return { kind: 'quarantine' as const, app: { id: app, name: nameOf(app) }, url: links.console(`apps/${app}`) };
  }
}

const keyOf = (app: string): string => `app ${app}`;

/** `2026-11-28 13:05`, in the time zone of the gateway. */
function moment(at: number): string {
  const date = new Date(at);
  const two = (part: number): string => String(part).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`;
}
