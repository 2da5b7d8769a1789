/**
 * Takes notices from apps and of failures, and hands each to every channel: mail, webhooks, browsers (specification,
 * "Notices"). Nothing here waits for a channel.
 */
import { clearTimeout, setTimeout } from 'node:timers';
import type { Logger } from 'pino';
import { v7 as uuid } from 'uuid';
import { SvcError } from '../../protocol/errors.ts';
import { appOfKey, isDraftKey } from '../../protocol/ids.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { Notice, NoticeKind } from '../../protocol/notice.ts';
import type { ChannelStatus, TestResult } from '../../protocol/routes/operations/notices-rows.ts';
import type { Redactor } from '../../protocol/text/redactor.ts';
import type { DbClient } from '../../protocol/wire/db-client.ts';
import type { Config } from '../config.ts';
import { toSvcError } from '../http/answers.ts';
import { ALONE, type IdentityDb } from '../people/identity-db.ts';
import type { RuntimeDatabases } from '../runtime/runtime-databases.ts';
import type { SentNotice } from '../simulation.ts';
import { Channel } from './channel.ts';
import { configuredChannels, contactOf } from './configured-channels.ts';
import type { Send } from './delivery.ts';
import { givenNotice, HourlyLimit } from './given-notice.ts';
import { appOfFailure, type Kept, KeptNotices } from './kept-notices.ts';
import { type Browser, NoticeBrowsers } from './notice-browsers.ts';
import type { NoticeLinks } from './notice-links.ts';
import { pushSender } from './web-push.ts';

export type NoticesOptions = {
  config: Config;
  links: NoticeLinks;
  runtime: RuntimeDatabases;
  identity: Omit<IdentityDb, 'log'>;
  keyFile: string;
  /** Takes the secrets of an app or draft out. */
  redactor(key: string): Redactor;
  /** Only where an app is tested: gets what it sends. */
  record: ((notice: SentNotice) => void) | null;
  log: Logger;
  /** Milliseconds since the epoch. */
  now?: () => number;
  setTimer?: (ms: number, wake: () => void) => () => void;
};

/** A failure, or its end: `key` is the same for both. */
type FailureReport = {
  key: string;
  kind: NoticeKind;
  app: Notice['app'];
  title: string;
  text: string;
  url: string | null;
};

/** Counted for failures of the gateway itself. */
const GATEWAY = '_gateway';

export class Notices {
  readonly browsers: NoticeBrowsers;
  readonly #options: NoticesOptions;
  readonly #now: () => number;
  readonly #kept: KeptNotices;
  readonly #channels = new Map<string, Channel>();
  readonly #sent: HourlyLimit;
  readonly #failed: HourlyLimit;
  /** Key of a failure that people got a notice of → when. */
  readonly #reportedFailures = new Map<string, number>();
  #opening: Promise<void> = Promise.resolve();
  #isOpen = true;
  #stopped = false;

  constructor(options: NoticesOptions) {
    const { now = Date.now, config, runtime, identity, keyFile, log } = options;
    this.#options = options;
    this.#now = now;
    this.#kept = new KeptNotices(runtime, log);
    this.#sent = new HourlyLimit(now);
    this.#failed = new HourlyLimit(now);
    this.browsers = new NoticeBrowsers({ ...identity, keyFile, now }, () => this.#followBrowsers());
    for (const { name, kind, send } of configuredChannels(config)) this.#add(name, kind, send);
  }

  /** Begins to read what an earlier gateway left, and sends it; a start does not wait for it. */
  open(): void {
    this.#read(() => this.#open());
  }

  /** Does the same for the notices in one database, whose apps this gateway serves from now on. */
  recover(db: DbClient): void {
    if (this.#channels.size > 0) this.#read(async () => this.#take(await this.#kept.read(db)));
  }

  /** Another gateway sends what waits for these apps, and knows their failures. */
  release(isOf: (app: string | null) => boolean): void {
    for (const channel of this.#channels.values()) channel.release(({ app }) => isOf(app?.id ?? null));
    for (const key of [...this.#reportedFailures.keys()])
      if (isOf(appOfFailure(key))) this.#reportedFailures.delete(key);
  }

  #read(work: () => Promise<void>): void {
    this.#isOpen = false;
    const read = this.#opening
      .then(work)
      .catch((error: unknown) =>
        this.#options.log.warn({ err: error }, 'What an earlier gateway left of notices could not be read.'),
      )
      .then(() => {
        this.#isOpen = this.#opening === read;
      });
    this.#opening = read;
  }

  /**
   * A notice of an app or draft, by the key of its data: `args` is `{ notice }`. Stored and queued once this resolves. Rejects with
   * `BAD_REQUEST`, and `RATE_LIMITED` after 60 in an hour.
   */
  async fromApp(key: string, name: string, { notice: given }: { notice?: unknown }): Promise<{ channels: number }> {
    const { links, redactor, record } = this.#options;
    const hidden = redactor(key);
    const { title, text, url } = givenNotice(given, links.page(key));
    const waitMs = this.#sent.take(appOfKey(key));
    if (waitMs > 0) throw tooMany(appOfKey(key), waitMs);
    const app = { id: appOfKey(key), name: isDraftKey(key) ? `${name} (draft)` : name };
    const said = { title: hidden.text(title), text: hidden.text(text) };
    const notice = this.#noticeOf({ kind: 'app', app, ...said, url: url && hidden.text(url) }, false);
    const { url: asGiven } = given as { url?: unknown };
    record?.({ ...said, ...(typeof asGiven === 'string' && { url: hidden.text(asGiven) }) });
    await this.#opening;
    await this.#deliver(notice);
    return { channels: this.#channels.size + (record === null ? 0 : 1) };
  }

  /** As `fromApp`, for what a thread asks: `payload` is JSON text, to be read now. Never rejects. */
  async answer(key: string, name: string, payload: Uint8Array): Promise<{ ok: boolean; body: Buffer }> {
    try {
      if (payload.length > LIMITS.noticeBytes) throw new SvcError('BAD_REQUEST', 'The notice is too long.');
      const args: unknown = JSON.parse(Buffer.from(payload).toString());
      return { ok: true, body: jsonOf(await this.fromApp(key, name, Object(args) as object)) };
    } catch (error) {
      const known = error instanceof SyntaxError ? new SvcError('BAD_REQUEST', 'That is not JSON.') : error;
      return { ok: false, body: jsonOf(toSvcError(known, this.#options.log).toBody()) };
    }
  }

  /** Sends a notice once, until it works again. */
  failed(report: FailureReport): void {
    void this.#opening.then(async () => {
      if (this.#channels.size === 0 || this.#reportedFailures.has(report.key) || !this.#mayTell(report)) return;
      const at = this.#now();
      this.#reportedFailures.set(report.key, at);
      this.#kept.keepFailure(report.key, at);
      await this.#deliver(this.#noticeOf(report, false));
    });
  }

  /** It works again. People who got a notice of its failure get one of that too; `reportOf` gets the time since which it had failed. */
  recovered(key: string, reportOf: (since: number) => Omit<FailureReport, 'key'>): void {
    // Nearly always.
    if (this.#isOpen && !this.#reportedFailures.has(key)) return;
    void this.#opening.then(async () => {
      const since = this.#reportedFailures.get(key);
      if (since === undefined) return;
      this.#reportedFailures.delete(key);
      this.#kept.forgetFailures([key]);
      const said = { key, ...reportOf(since) };
      if (this.#mayTell(said)) await this.#deliver(this.#noticeOf(said, true));
    });
  }

  /** An app was removed: a later one of its name has failed in nothing. */
  forget(app: string): void {
    const keys = [...this.#reportedFailures.keys()].filter((key) => appOfFailure(key) === app);
    for (const key of keys) this.#reportedFailures.delete(key);
    this.#kept.forgetFailures(keys);
    for (const limit of [this.#sent, this.#failed]) limit.forget(app);
  }

  /** Those of the configuration first. */
  status(): ChannelStatus[] {
    return [...this.#channels.values()].map((channel) => channel.status());
  }

  /** Sends a test to a channel, or to all, now, and says how each went. Rejects with `NOT_FOUND`. */
  async test(name?: string): Promise<TestResult[]> {
    await this.#opening;
    const channels = [...this.#channels.values()].filter((channel) => name === undefined || channel.name === name);
    if (channels.length === 0 && name !== undefined)
      throw new SvcError(
        'NOT_FOUND',
        `There is no channel "${name.slice(0, LIMITS.textChars)}". There are: ${[...this.#channels.keys()].join(', ') || 'none'}.`,
        { path: 'channel' },
      );
    const text = 'This is a test: notices of this gateway reach you here.';
    const url = this.#options.links.console('system/notices');
    const notice = this.#noticeOf({ kind: 'test', app: null, title: 'Test of svc', text, url }, false);
    return await Promise.all(channels.map((channel) => channel.try(notice)));
  }

  /** As `NoticeBrowsers.add`. */
  async addBrowser(subscription: unknown, name: string): Promise<Browser> {
    await this.#opening;
    const browser = await this.browsers.add(subscription, name);
    await this.#addBrowser(browser);
    return browser;
  }

  /** It gets no more from now on. Rejects with `NOT_FOUND`. */
  async removeBrowser(id: string): Promise<void> {
    await this.#opening;
    if (!(await this.browsers.remove(id)))
      throw new SvcError('NOT_FOUND', `No browser "${id.slice(0, LIMITS.textChars)}" gets notices.`);
  }

  /** What is under way ends now; what was not sent is for the next start. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const channel of this.#channels.values()) channel.stop();
    await this.#opening;
    await this.#kept.settled();
  }

  async #open(): Promise<void> {
    const { nodes = ALONE } = this.#options.identity;
    const open = () => this.browsers.open().then(() => this.#followBrowsers());
    // A node that ends first knows nobody.
    const browsing = nodes.ready.then(open, () => {});
    await browsing.catch((error: unknown) =>
      this.#options.log.warn({ err: error }, 'The browsers that get notices could not be read.'),
    );
    if (this.#channels.size === 0) return;
    this.#take(await this.#kept.read());
  }

  #take({ waiting, failures }: Kept): void {
    for (const [key, at] of failures) this.#reportedFailures.set(key, at);
    const gone = new Set<string>();
    for (const { channel, notice } of waiting) {
      const found = this.#channels.get(channel);
      if (found === undefined) gone.add(channel);
      else found.add(notice);
    }
    for (const channel of gone) this.#kept.dropChannel(channel);
  }

  /** There is a channel for each browser. */
  async #followBrowsers(): Promise<void> {
    const wanted = new Map(this.browsers.all.map((browser) => [channelOf(browser.id), browser]));
    const gone = this.status().filter(({ channel, browser }) => browser !== undefined && !wanted.has(channel));
    for (const { channel } of gone) this.#remove(channel);
    for (const [name, browser] of wanted) if (!this.#channels.has(name)) await this.#addBrowser(browser);
  }

  async #addBrowser({ id, name, addedAt, subscription }: Browser): Promise<void> {
    const send = pushSender(subscription, await this.browsers.key(), contactOf(this.#options.config));
    this.#remove(channelOf(id));
    this.#add(channelOf(id), 'push', send, { id, name, addedAt });
  }

  #add(name: string, kind: ChannelStatus['kind'], send: Send, browser?: ChannelStatus['browser']): void {
    const { log, setTimer = afterMs } = this.#options;
    const channel = new Channel({
      name,
      kind,
      send,
      ...(browser && { browser, onGone: () => this.#goneBrowser(browser) }),
      onDone: (notice) => this.#kept.removeSent(notice, name),
      log: (level, message) => log[level](message),
      now: this.#now,
      setTimer,
    });
    if (this.#stopped) channel.stop();
    this.#channels.set(name, channel);
  }

  #remove(name: string): void {
    const channel = this.#channels.get(name);
    if (channel === undefined) return;
    channel.stop();
    this.#channels.delete(name);
    this.#kept.dropChannel(name);
  }

  /** It took its agreement back, which its push service tells. */
  #goneBrowser({ id, name }: { id: string; name: string }): void {
    this.#options.log.info(`The browser "${name}" takes no more notices, and is removed.`);
    this.removeBrowser(id).catch((error: unknown) =>
      this.#options.log.warn({ err: error }, 'A browser that takes no more notices could not be removed.'),
    );
  }

  #noticeOf({ kind, app, title, text, url }: Omit<FailureReport, 'key'>, isWell: boolean): Notice {
    return { id: uuid(), at: this.#now(), kind, app, title, text, url, isWell };
  }

  #mayTell({ app }: FailureReport): boolean {
    const waitMs = this.#failed.take(app?.id ?? GATEWAY);
    if (waitMs === 0) return true;
    const about = app === null ? 'the gateway' : `"${app.id}"`;
    this.#options.log.warn(`A notice about ${about} is held back: there were ${LIMITS.noticesInWindow} in an hour.`);
    return false;
  }

  async #deliver(notice: Notice): Promise<void> {
    const channels = [...this.#channels.values()];
    await this.#kept.keep(
      notice,
      channels.map(({ name }) => name),
    );
    for (const channel of channels) channel.add(notice);
  }
}

const channelOf = (browser: string): string => `push ${browser}`;

function afterMs(ms: number, wake: () => void): () => void {
  const timer = setTimeout(wake, ms).unref();
  return () => clearTimeout(timer);
}

function tooMany(app: string, waitMs: number): SvcError {
  const minutes = Math.max(1, Math.ceil(waitMs / 60_000));
  const message = `"${app}" has sent ${LIMITS.noticesInWindow} notices in an hour, the maximum; it may again in ${minutes} min.`;
  return new SvcError('RATE_LIMITED', message);
}

function jsonOf(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}
