/** The set-up of suites of the console in a browser: one signed-in window, which shows a view for each test. */
import { after, afterEach, before } from 'node:test';
import type { BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { openConsole, openView } from '../../testing/console.ts';
import type { TestGateway } from '../../testing/gateway.ts';
import type { AppFiles } from '../../testing/published.ts';
import { sharedChromium } from './chromium.ts';

/** Far more than anything here takes, so that no test fails on a busy machine. */
export const PATIENCE_MS = 90_000;

export type ConsoleSuite = {
  gateway: TestGateway;
  context: BrowserContext;
  /** The errors of the browser since a view was opened last. */
  complaints: string[];
  /** Opens a view, signed in. */
  open(view: string): Promise<Page>;
  /** Opens a view in another window of the same browser. */
  openAnother(view: string): Promise<Page>;
  /** Another context for the rest of the test. */
  newContext(window?: BrowserContextOptions): Promise<void>;
};

export type SuiteOptions = {
  /** Apps that are uploaded first. */
  apps?: Record<string, AppFiles>;
  /** Gets the gateway after that. */
  prepare?: () => Promise<void>;
  /** The page is loaded again for each test: what was typed in it, or its palette, would last. */
  reloads?: boolean;
};

/** To be called in a suite; `window` has the options of its context. */
export function consoleSuite(
  gateway: TestGateway,
  window: BrowserContextOptions,
  { apps = {}, prepare, reloads = false }: SuiteOptions = {},
): ConsoleSuite {
  const make = async (options: BrowserContextOptions) => {
    const context = await (await sharedChromium()).newContext(options);
    context.setDefaultTimeout(PATIENCE_MS);
    return context;
  };
  let shared: BrowserContext;
  /** The window of the shared context. */
  let page: Page | undefined;
  let complaintsOfPage: string[];
  const openFirst = async (view: string) => {
    const opened = await openConsole(suite.context, gateway, view);
    suite.complaints = opened.complaints;
    return opened.page;
  };
  const suite = {
    gateway,
    complaints: [],
    open: async (view: string) => {
      if (suite.context !== shared) return await openFirst(view);
      if (page === undefined) {
        page = await openFirst(view);
        complaintsOfPage = suite.complaints;
        return page;
      }
      complaintsOfPage.length = 0;
      suite.complaints = complaintsOfPage;
      await page.emulateMedia({ colorScheme: window.colorScheme ?? 'light' });
      await page.setViewportSize(window.viewport ?? { width: 1280, height: 720 });
      if (!reloads) await openView(page, view);
      else {
        // Unlike openView this does not show the view in the page that ends.
        await page.evaluate(`history.replaceState(null, '', ${JSON.stringify(`#${view}`)})`);
        await page.reload();
      }
      return page;
    },
    openAnother: async (view: string) => (await openConsole(suite.context, gateway, view, suite.complaints)).page,
    newContext: async (other: BrowserContextOptions = window) => {
      suite.context = await make(other);
    },
  } as unknown as ConsoleSuite;
  before(async () => {
    for (const [id, files] of Object.entries(apps)) await gateway.install(id, files);
    await prepare?.();
    shared = await make(window);
    suite.context = shared;
  });
  after(() => shared?.close());
  afterEach(async (t) => {
    if (suite.context !== shared) {
      await suite.context.close();
      suite.context = shared;
    }
    // A test that failed may have left anything in the window.
    const kept = (t as { passed?: boolean }).passed ? page : undefined;
    for (const opened of shared.pages()) if (opened !== kept) await opened.close();
    page = kept;
    if (page === undefined) return;
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    // A view that is left and shown again begins anew.
    await openView(page, '/nothing');
    await page.getByText('There is nothing at this address').waitFor();
  });
  return suite;
}
