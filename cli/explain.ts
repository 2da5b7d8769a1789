/** Says of an error what happened and what to do next, with the nearest name where something is unknown. */
import { type ErrorBody, type InputIssue, SvcError } from '../protocol/errors.ts';
import type { Subject } from './command.ts';
import { CommandError, GatewayError, messageOf } from './failure.ts';
import { allApps, allSessions, type DescribedApp, findRow, type ToolAnswer } from './gateway/api.ts';
import type { Client } from './gateway/client.ts';
import { nearest } from './terminal/nearest.ts';

export type Explanation = { title: string; lines: string[] };

/** Names listed when none is near the one that was typed. */
const LISTED = 8;

/** Advice that needs no question to the gateway. `<app>` and `<tool>` are replaced by what the command line named. */
const ADVICE = new Map<string, string[]>(
  Object.entries({
    UNKNOWN_AUTOMATION: ['List them: svc automations'],
    NO_GIT_STORE: [
      'This gateway keeps uploads as archives. Stop it and move its apps, data stays: svc convert --store git',
    ],
    INVALID_HANDLER: ['The rules: docs/handler-rules.md'],
    UNKNOWN_TOKEN: ['List them: svc token ls'],
    NO_RUNNER: ['What there is, and how to get one: svc agents'],
    UNKNOWN_MODEL: ['Which there are: svc agents'],
    AGENT_FAILED: ['Is it signed in? svc agents'],
    MODE_UNAVAILABLE: [
      'A window keeps the mode of its first turn: leave --window out for a new one.',
      'Mode full needs the git store. Stop the gateway and move its apps: svc convert --store git',
    ],
    UNKNOWN_RUN: ['The latest that are kept: svc runs'],
    UNKNOWN_VERSION: ['Stored versions: svc versions <app>'],
    NO_ACTIVE_VERSION: ['Make one live: svc versions <app>, then svc activate <app> <version>'],
    QUARANTINED: ['See why: svc logs <app>.  Then push a fixed version, or try again: svc restart <app>'],
    HANDLER_ERROR: ['Details: svc logs <app>'],
    INVALID_INPUT: ['What it takes: svc describe <app> <tool>'],
    WRONG_KIND: ['What it takes: svc describe <app> <tool>'],
    OVERLOADED: ['Try again in a moment.  Who is busy: svc status'],
    RATE_LIMITED: ['Try again in a moment.  Who is busy: svc status'],
    INTERNAL: ['The gateway logged the details where it runs (standard error of svc serve).'],
  }),
);

const DIFF = 'svc diff <app> --session <session>';
const UPDATE = 'svc sessions update <session> --app <app>';
const PUBLISH = 'svc publish <app> --session <session>';

/** `client` answers which names exist; those that the command line named are compared with them. */
export async function explain(error: unknown, client: Client | undefined, subject: Subject): Promise<Explanation> {
  if (error instanceof GatewayError) return explainGatewayError(error.body, client, subject);
  const message = messageOf(error);
  if (error instanceof SvcError)
    return { title: `${error.code}: ${message}`, lines: error.path === undefined ? [] : [`at ${error.path}`] };
  return { title: message, lines: error instanceof CommandError ? [error.hint ?? []].flat() : [] };
}

async function explainGatewayError(
  body: ErrorBody,
  client: Client | undefined,
  subject: Subject,
): Promise<Explanation> {
  const { code, message, path, issues = [], files = [] } = body;
  const isSaid = !path || message.includes(path) || code === 'UNKNOWN_TEMPLATE';
  const lines = [
    ...(isSaid ? [] : [`at ${path}`]),
    ...issues.slice(1).map((issue) => `${placeOf(issue)}: ${issue.message}`),
    ...files.filter((file) => !message.includes(file)),
    ...(await nextStep(body, client, subject)),
  ];
  return { title: `${code}: ${message}`, lines };
}

/** A file with line and column, or a place in the input. */
function placeOf({ path, line, column }: InputIssue): string {
  return line === undefined ? path || '(input)' : `${path}:${line}:${column ?? 1}`;
}

async function nextStep(body: ErrorBody, client: Client | undefined, subject: Subject): Promise<string[]> {
  const { app = '<app>', tool = '', session = '', template = '', worksIn } = subject;
  // Asking must not hide the error that is being explained.
  const ask = async <T>(question: (client: Client) => Promise<T[]>): Promise<T[] | null> =>
    client === undefined ? null : question(client).catch(() => null);
  const appsOf = async (id: string): Promise<string[] | null> =>
    client === undefined ? null : ((await findRow(client, id).catch(() => undefined))?.apps ?? null);

  switch (body.code) {
    case 'UNAUTHORIZED':
      return [tokenHint(client)];
    case 'UNKNOWN_APP': {
      const own = worksIn === undefined ? null : await appsOf(worksIn);
      const live = (await ask(allApps))?.map(({ id }) => id) ?? null;
      if (own !== null && own.length > 0) return suggest(app, own, `Apps of ${worksIn}`, '', live ?? []);
      return suggest(app, live, 'Registered apps', 'No app is registered yet: svc push <dir>');
    }
    case 'UNKNOWN_QUERY':
    case 'UNKNOWN_ACTION': {
      const list = body.code === 'UNKNOWN_QUERY' ? 'queries' : 'actions';
      const tools = await ask(async (open) => {
        const { data } = await open.post<ToolAnswer<DescribedApp>>('/svc/_tool/svc_describe', { app });
        return data[list].map(({ name }) => name);
      });
      return suggest(tool, tools, `Its ${list}`, `It has no ${list}.`);
    }
    case 'UNKNOWN_SESSION': {
      const open = (await ask(allSessions))?.map(({ sessionId }) => sessionId) ?? null;
      return suggest(session, open, 'Open sessions', 'No open sessions. Open one: svc sessions open');
    }
    case 'UNKNOWN_TEMPLATE': {
      // The message lists them all.
      const templates = await ask((open) => open.get<{ id: string }[]>('/svc/_templates'));
      const meant = nearest(template, templates?.map(({ id }) => id) ?? []);
      return meant === undefined ? [] : [`Did you mean "${meant}"?`];
    }
    case 'MERGE_CONFLICT':
    case 'NO_CHANGES':
    case 'INVALID_MIGRATION':
      if (worksIn === undefined) return [];
      return sessionAdvice(body, worksIn, subject.app ? [subject.app] : await appsOf(worksIn));
    default:
      return (ADVICE.get(body.code) ?? []).map((line) =>
        line.replaceAll('<app>', () => app).replace(' <tool>', () => tool && ` ${tool}`),
      );
  }
}

/** What to do about a session that cannot be published: commands that can be pasted, for its app if it has only one. */
function sessionAdvice(body: ErrorBody, session: string, apps: string[] | null): string[] {
  const [app = '<app>', ...others] = apps ?? [];
  const named = others.length > 0 ? '<app>' : app;
  return waysOut(body).map((line) => line.replace('<session>', () => session).replace('<app>', () => named));
}

function waysOut({ code, path, files }: ErrorBody): string[] {
  if (code === 'NO_CHANGES') return ['Edit something first: svc dev <dir> --session <session>'];
  if (code === 'INVALID_MIGRATION') {
    if (files === undefined) return [];
    return [`Take the other one in: ${UPDATE}`, `Rename the session's, then publish again: ${PUBLISH}`];
  }
  // With a path, the marks of an update are left in that file.
  if (path !== undefined) return [`Where they are: ${DIFF}`, `When all are resolved: ${PUBLISH}`];
  return [
    `What the session changes: ${DIFF}`,
    `Take the published lines in: ${UPDATE}`,
    `Choose between the marks, then publish again: ${PUBLISH}`,
  ];
}

function tokenHint(client: Client | undefined): string {
  const { token, tokenFrom } = client?.connection ?? { token: undefined, tokenFrom: '' };
  if (token === undefined)
    return 'No token was sent. Give one with --token, or with SVC_TOKEN beside SVC_URL; "svc token" prints it on the gateway\'s machine.';
  return `The token from ${tokenFrom} is not the gateway's. "svc token" prints the right one on the gateway's machine.`;
}

/** `more` may be meant too, and are not listed. */
function suggest(
  typed: string,
  names: string[] | null,
  title: string,
  whenNone: string,
  more: string[] = [],
): string[] {
  if (names === null) return [];
  const meant = nearest(typed, [...names, ...more]);
  if (meant !== undefined && meant !== typed) return [`Did you mean "${meant}"?`];
  if (names.length === 0) return [whenNone];
  return [`${title}: ${names.slice(0, LISTED).join(', ')}${names.length > LISTED ? ', …' : ''}`];
}
