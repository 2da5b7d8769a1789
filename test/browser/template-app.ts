/** What the tests of all templates need: each in a daemon and a browser of its own, and its tools called as its manifest says. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { root, startGateway, type TestGateway } from '../support/gateway.ts';
import { runToEnd } from '../support/runs.ts';
import { startChromium } from './chromium.ts';

/** Far more than any of it takes, so that a busy machine fails nothing. */
const PATIENCE_MS = 90_000;

type Tool = { name: string; input?: object; output?: object };
type Manifest = { id: string; name: string; description: string; queries: Tool[]; actions: Tool[] };

/** `valid` is called in this order; `invalid` must be refused with INVALID_INPUT. */
export type ToolCall = { tool: string; valid: unknown; invalid: unknown; status?: number };

export class TemplateApp {
  readonly id: string;
  readonly gateway: TestGateway;
  readonly context: BrowserContext;
  readonly manifest: Manifest;
  /** Errors in the console, scripts and styles that the policy refused, exceptions: there should be none. */
  readonly complaints: string[] = [];

  constructor(id: string, gateway: TestGateway, context: BrowserContext) {
    this.id = id;
    this.gateway = gateway;
    this.context = context;
    this.manifest = JSON.parse(readFileSync(join(root, 'templates', id, 'app.json'), 'utf8')) as Manifest;
    context.setDefaultTimeout(PATIENCE_MS);
    context.on('console', (message) => {
      if (message.type() === 'error') this.complaints.push(message.text());
    });
    context.on('weberror', (error) => this.complaints.push(String(error.error())));
  }

  /** A window on the app, signed in. `query` stands behind its address, such as `?theme=dark`. */
  async window(query = ''): Promise<Page> {
    const page = await this.context.newPage();
    await page.goto(`${this.gateway.url}/svc/#token=${this.gateway.token}&open=${this.id}`);
    await page.waitForURL(`${this.gateway.url}/svc/${this.id}/`);
    if (query !== '') await page.goto(`${this.gateway.url}/svc/${this.id}/${query}`);
    return page;
  }

  /** Ends what a test opened: a browser keeps six connections to an address at most, and each window listens on one. */
  async closeWindows(): Promise<void> {
    for (const page of this.context.pages()) await page.close();
  }

  /** The body of an action that succeeds. */
  // biome-ignore lint/suspicious/noExplicitAny: the tests look into answers of every shape
  async write(action: string, input: unknown): Promise<any> {
    const { status, text, json } = await this.gateway.write(this.id, action, input);
    assert.ok(status < 300, `${action} answered ${status}: ${text}`);
    return json.data.body;
  }

  /** The value of a query. */
  // biome-ignore lint/suspicious/noExplicitAny: the tests look into answers of every shape
  async read(query: string, input: unknown = {}): Promise<any> {
    const { status, text, json } = await this.gateway.read(this.id, query, input);
    assert.equal(status, 200, `${query}: ${text}`);
    return json.data;
  }

  /** A picture of the page into the folder that SVC_LOOK names, when somebody wants to look: light, dark, on a phone. */
  async picture(page: Page, name: string): Promise<void> {
    const folder = process.env.SVC_LOOK;
    if (!folder) return;
    const size = page.viewportSize();
    const shoot = (look: string) =>
      page.screenshot({ path: `${folder}/${this.id}-${name}-${look}.png`, fullPage: true, animations: 'disabled' });
    await page.emulateMedia({ colorScheme: 'light' });
    await shoot('light');
    await page.emulateMedia({ colorScheme: 'dark' });
    await shoot('dark');
    await page.setViewportSize({ width: 390, height: 844 });
    await shoot('phone-dark');
    await page.emulateMedia({ colorScheme: 'light' });
    await shoot('phone');
    if (size) await page.setViewportSize(size);
  }
}

/** Installs a template into a fresh daemon and opens a browser; both end with the test (or suite) `t`. */
export async function openTemplate(t: { after(cleanup: () => Promise<void>): void }, id: string): Promise<TemplateApp> {
  const cleanups: (() => Promise<void>)[] = [];
  t.after(async () => {
    for (const cleanup of cleanups.reverse()) await cleanup();
  });
  const gateway = await startGateway({ after: (cleanup) => void cleanups.push(cleanup) }, { examples: [id] });
  const browser: Browser = await startChromium();
  cleanups.push(() => browser.close());
  const context = await browser.newContext({ viewport: { width: 1120, height: 760 }, colorScheme: 'light' });
  return new TemplateApp(id, gateway, context);
}

/**
 * Calls each tool over HTTP with an input that is right, whose answer must fit the tool's `output`, and one that is wrong.
 * The calls must name every tool of the manifest.
 */
export async function callEveryTool({ id, gateway, manifest }: TemplateApp, calls: ToolCall[]): Promise<void> {
  const tools = [...manifest.queries, ...manifest.actions];
  assert.deepEqual(calls.map(({ tool }) => tool).sort(), tools.map(({ name }) => name).sort());
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  formats.default(ajv);
  for (const { tool, valid, invalid, status = 200 } of calls) {
    const isQuery = manifest.queries.some(({ name }) => name === tool);
    const call = (input: unknown) => (isQuery ? gateway.read(id, tool, input) : gateway.write(id, tool, input));
    const answer = await call(valid);
    assert.equal(answer.status, status, `${tool}: ${answer.text}`);
    const { input, output } = tools.find(({ name }) => name === tool) ?? {};
    assert.ok(input && output, `${tool} declares input and output`);
    const fits = ajv.compile(output);
    const value = isQuery ? answer.json.data : answer.json.data.body;
    assert.ok(fits(value), `${tool} answered ${answer.text}: ${ajv.errorsText(fits.errors)}`);
    const refused = await call(invalid);
    assert.equal(refused.status, 400, `${tool} with ${JSON.stringify(invalid)}: ${refused.text}`);
    assert.equal(refused.json.error.code, 'INVALID_INPUT', tool);
  }
}

/** Runs each automation of the template once with its input; each must end ok. Answers the outputs by id. */
export async function runEveryAutomation(
  app: TemplateApp,
  inputs: Record<string, unknown> = {},
): Promise<Record<string, unknown>> {
  const folder = join(root, 'templates', app.id, 'automations');
  const outputs: Record<string, unknown> = {};
  for (const automation of existsSync(folder) ? readdirSync(folder) : []) {
    const run = await runToEnd(app.gateway, `${app.id}/${automation}`, inputs[automation]);
    assert.equal(run.state, 'ok', `${automation}: ${JSON.stringify(run.error)}`);
    outputs[automation] = run.output;
  }
  return outputs;
}
