/** The set-up of suites of the console in a browser: one gateway for all tests, and a separate window for each. */
import { after, afterEach, before, beforeEach } from 'node:test';
import type { BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { openConsole } from '../../testing/console.ts';
import { type StartOptions, startGateway, type TestGateway } from '../../testing/gateway.ts';
import { sharedChromium } from './chromium.ts';

/** Far more than anything here takes, so that no test fails on a busy machine. */
const PATIENCE_MS = 90_000;

export type ConsoleSuite = {
  gateway: TestGateway;
  context: BrowserContext;
  /** The errors of the browser in the page that was opened last. */
  complaints: string[];
  /** Opens a view, signed in. */
  open(view: string): Promise<Page>;
  /** Another context instead of the test's. */
  newContext(window: BrowserContextOptions): Promise<void>;
};

/**
 * To be called in a suite. The gateway starts with `start`, then `prepare` gets it; `window` has the options of each
 * test's context.
 */
export function consoleSuite(
  start: StartOptions,
  window: BrowserContextOptions,
  prepare: (gateway: TestGateway) => Promise<void> = async () => {},
): ConsoleSuite {
  const cleanups: (() => unknown)[] = [];
  // Missing members exist when the first test runs.
  const suite = {
    complaints: [],
    open: async (view: string) => {
      const { page, complaints } = await openConsole(suite.context, suite.gateway, view);
      suite.complaints = complaints;
      return page;
    },
    newContext: async (other: BrowserContextOptions) => {
      await suite.context.close();
      await open(other);
    },
  } as unknown as ConsoleSuite;
  const open = async (options: BrowserContextOptions) => {
    suite.context = await (await sharedChromium()).newContext(options);
    suite.context.setDefaultTimeout(PATIENCE_MS);
  };
  before(async () => {
    suite.gateway = await startGateway({ after: (cleanup) => void cleanups.unshift(cleanup) }, start);
    await prepare(suite.gateway);
  });
  after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });
  beforeEach(() => open(window));
  afterEach(() => suite.context.close());
  return suite;
}
