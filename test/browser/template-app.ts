/**
 * Helpers for the tests of all templates: apps made of them in one gateway, their windows, and calls of their tools by
 * their manifest.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { BrowserContext, Page } from 'playwright-core';
import { signBrowserIn } from '../../testing/browser-session.ts';
import { appFolder, makeGateway, type TestGateway } from '../../testing/gateway.ts';
import type { Origin } from '../../testing/origins.ts';
import { originOf } from '../../testing/pages.ts';
import { join as joinAs } from '../../testing/people.ts';
import { type AppFiles, filesOf } from '../../testing/published.ts';
import { runToEnd } from '../../testing/runs.ts';
import { sharedChromium } from './chromium.ts';
import { CALLS, IMAGE } from './template-calls.ts';

/** Far more than anything here takes, so that no test fails on a busy machine. */
export const PATIENCE_MS = 90_000;

type Tool = { name: string; input?: object; output?: object };
type Manifest = { id: string; name: string; description: string; queries: Tool[]; actions: Tool[] };

export class TemplateApp {
  readonly id: string;
  readonly template: string;
  readonly gateway: TestGateway;
  readonly manifest: Manifest;
  /** Errors in the console, scripts and styles that the policy refused, exceptions: there should be none. */
  readonly complaints: string[] = [];
  #context: BrowserContext | undefined;
  readonly #ofPeople: BrowserContext[] = [];
  /** The browser at the console. */
  #console: Origin | undefined;

  /** `template` is the template of the app, if the app has another id. */
  constructor(id: string, gateway: TestGateway, template = id) {
    this.id = id;
    this.gateway = gateway;
    this.template = template;
    this.manifest = JSON.parse(readFileSync(join(appFolder(template), 'app.json'), 'utf8')) as Manifest;
  }

  /** A window on the app, signed in. `path` is one at its origin, such as `?theme=dark`. */
  async window(path = `svc/${this.id}/`): Promise<Page> {
    const isFirst = this.#context === undefined;
    this.#context ??= await this.#openContext();
    const page = await this.#context.newPage();
    if (isFirst) await this.#signIn(page);
    await page.goto(`${originOf(this.gateway, { app: this.id })}/${path}`);
    return page;
  }

  /** A window of somebody with a new account, who has the app in a role. Names are used once in a gateway. */
  async windowOf(name: string, role = 'editor'): Promise<Page> {
    const { origin } = await joinAs(this.gateway, name, { grants: [{ app: this.id, role }] });
    const context = await this.#openContext();
    this.#ofPeople.push(context);
    const page = await context.newPage();
    const { address } = await signBrowserIn(page, this.gateway, { app: this.id }, origin);
    await page.goto(address);
    return page;
  }

  /** The gateway cannot be reached from its windows, or can again. */
  async setOffline(isOffline: boolean): Promise<void> {
    await this.#context?.setOffline(isOffline);
  }

  /** Gives its windows a new session, as a sign-in at the console does. */
  async signIn(): Promise<void> {
    const page = await this.#context?.newPage();
    if (page === undefined) return;
    await this.#signIn(page);
    await page.close();
  }

  async #signIn(page: Page): Promise<void> {
    this.#console = (await signBrowserIn(page, this.gateway, { app: this.id })).console;
  }

  /** Ends the session, like a sign-out at the console. */
  async signOut(): Promise<void> {
    const answer = await this.#console?.call('DELETE', '/svc/_session');
    assert.equal(answer?.status, 200, answer?.text);
  }

  /**
   * Ends what a test opened: a browser keeps six connections to an address at most, and each window uses one for its
   * stream.
   */
  async closeWindows(): Promise<void> {
    for (const page of this.#context?.pages() ?? []) await page.close();
    for (const context of this.#ofPeople.splice(0)) await context.close();
  }

  /** Clears the browser's storage of it. */
  async close(): Promise<void> {
    for (const context of [this.#context, ...this.#ofPeople.splice(0)]) await context?.close();
  }

  async #openContext(): Promise<BrowserContext> {
    const browser = await sharedChromium();
    const context = await browser.newContext({ viewport: { width: 1120, height: 760 }, colorScheme: 'light' });
    context.setDefaultTimeout(PATIENCE_MS);
    context.on('console', (message) => {
      if (message.type() === 'error') this.complaints.push(message.text());
    });
    context.on('weberror', (error) => this.complaints.push(String(error.error())));
    return context;
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

  /** Pictures of the page in the folder that SVC_LOOK names, if a person wants to look: light, dark, on a phone. */
  async picture(page: Page, name: string): Promise<void> {
    const folder = process.env.SVC_LOOK;
    if (!folder) return;
    const size = page.viewportSize();
    const shoot = (look: string) =>
      page.screenshot({
        path: `${folder}/${this.template}-${name}-${look}.png`,
        fullPage: true,
        animations: 'disabled',
      });
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

let shared: ReturnType<typeof makeGateway> | undefined;
const installed: string[] = [];

after(() => shared?.remove());

/** A new app made of a template, in the gateway of all templates of a file, which the first one starts. */
export async function installTemplate(template: string): Promise<TemplateApp> {
  if (shared === undefined) {
    shared = makeGateway();
    await shared.gateway.start();
  }
  const again = installed.filter((id) => id === template).length;
  installed.push(template);
  const app = new TemplateApp(`${template.replace('_', '')}${again || ''}`, shared.gateway, template);
  await app.gateway.install(app.id, filesAs(template, app.id));
  return app;
}

/** The files of a template as an app of this id; `_blank` is completed as `svc new` does. */
function filesAs(template: string, id: string): AppFiles {
  const files = filesOf(appFolder(template));
  if (template === id) return files;
  if (template === '_blank')
    for (const [path, content] of Object.entries(files))
      files[path] = String(content).replaceAll('__ID__', id).replaceAll('__NAME__', 'Blank');
  return { ...files, 'app.json': JSON.stringify({ ...JSON.parse(String(files['app.json'])), id }) };
}

/** The same for one test, after which its windows close. */
export async function openTemplate(
  t: { after(cleanup: () => Promise<void>): void },
  template: string,
): Promise<TemplateApp> {
  const app = await installTemplate(template);
  t.after(() => app.close());
  return app;
}

/**
 * Calls each tool over HTTP with a valid input, whose answer must match the tool's `output`, and with an invalid one.
 * The calls must name every tool of the manifest. `id` is that of an existing row, `web` the address of a server.
 */
export async function callEveryTool(
  { id, gateway, manifest, template }: TemplateApp,
  given: { id?: number; web?: string } = {},
): Promise<void> {
  const calls = CALLS[template]?.({ id: 0, web: '', ...given }) ?? [];
  const tools = [...manifest.queries, ...manifest.actions];
  assert.deepEqual(calls.map(({ tool }) => tool).sort(), tools.map(({ name }) => name).sort());
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  formats.default(ajv);
  await gateway.call('PUT', `/svc/${id}/_blobs`, { body: IMAGE, headers: { 'content-type': 'image/gif' } });
  for (const { tool, valid, invalid, status = 200 } of calls) {
    const isQuery = manifest.queries.some(({ name }) => name === tool);
    const call = (input: unknown) => (isQuery ? gateway.read(id, tool, input) : gateway.write(id, tool, input));
    const answer = await call(valid);
    assert.equal(answer.status, status, `${tool}: ${answer.text}`);
    const { input, output } = tools.find(({ name }) => name === tool) ?? {};
    assert.ok(input && output, `${tool} declares input and output`);
    const fits = ajv.compile(output);
    const value = isQuery ? answer.json.data : answer.json.data.body;
    // A refusal has a code and a message.
    assert.ok(status >= 400 || fits(value), `${tool} answered ${answer.text}: ${ajv.errorsText(fits.errors)}`);
    const refused = await call(invalid);
    assert.equal(refused.status, 400, `${tool} with ${JSON.stringify(invalid)}: ${refused.text}`);
    assert.equal(refused.json.error.code, 'INVALID_INPUT', tool);
  }
}

/** Runs each automation of the template once with its input; each must end ok. Returns the outputs by id. */
export async function runEveryAutomation(
  app: TemplateApp,
  inputs: Record<string, unknown> = {},
): Promise<Record<string, unknown>> {
  const folder = join(appFolder(app.template), 'automations');
  const outputs: Record<string, unknown> = {};
  for (const automation of existsSync(folder) ? readdirSync(folder) : []) {
    const run = await runToEnd(app.gateway, `${app.id}/${automation}`, inputs[automation]);
    assert.equal(run.state, 'ok', `${automation}: ${JSON.stringify(run.error)}`);
    outputs[automation] = run.output;
  }
  return outputs;
}
