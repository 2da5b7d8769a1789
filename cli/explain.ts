/** Says of an error what happened and what to do next, with the nearest name where something is unknown. */

import { type InputIssue, SvcError } from '../protocol/errors.ts';
import type { Arguments } from './arguments.ts';
import { CommandError, GatewayError, type Hint, messageOf, UnreachableError, UsageError } from './failure.ts';
import type { DescribedApp, TemplateRow, ToolAnswer } from './gateway/api.ts';
import type { Client } from './gateway/client.ts';
import { allApps } from './gateway/lists.ts';
import { appsOf, sessionHints } from './session-hints.ts';
import { allSessions } from './sessions.ts';
import { nearest } from './terminal/nearest.ts';

export type Explanation = { title: string; lines: string[] };

/** Names listed when none is near the one that was typed. */
const LISTED = 8;

/** What the command line named. */
export type Subject = {
  app?: string | undefined;
  tool?: string | undefined;
  session?: string | undefined;
  template?: string | undefined;
};

/** `subject` is what names are compared with, and `client` answers what there is. */
export async function explain(error: unknown, client: Client | undefined, subject: Subject): Promise<Explanation> {
  if (error instanceof GatewayError) return explainGatewayError(error, client, subject);
  const message = messageOf(error);
  const title = error instanceof SvcError ? `${error.code}: ${message}` : message;
  if (error instanceof UsageError) {
    const help = error.command === undefined ? [] : [`See: svc help ${error.command}`];
    return { title, lines: [...linesOf(error.hint), ...help] };
  }
  if (error instanceof UnreachableError || error instanceof CommandError)
    return { title, lines: [...linesOf(error.hint)] };
  if (error instanceof SvcError && error.path !== undefined) return { title, lines: [`at ${error.path}`] };
  return { title, lines: [] };
}

async function explainGatewayError(
  error: GatewayError,
  client: Client | undefined,
  subject: Subject,
): Promise<Explanation> {
  const { code, message, path, issues, files } = error.body;
  const title = `${code}: ${message}`;
  // What the command line named is known to whoever typed it.
  const isNamed = code === 'UNKNOWN_TEMPLATE';
  const where = isNamed || path === undefined || path === '' || message.includes(path) ? [] : [`at ${path}`];
  const listed = [
    ...(issues ?? []).slice(1).map((issue) => `${placeOf(issue)}: ${issue.message}`),
    ...(files ?? []).filter((file) => !message.includes(file)),
  ];
  return { title, lines: [...where, ...listed, ...(await nextStep(error, client, { ...subject, ...error.about }))] };
}

/** Where it is: a file with line and column, or a place in the input. */
function placeOf({ path, line, column }: InputIssue): string {
  return line === undefined ? path || '(input)' : `${path}:${line}:${column ?? 1}`;
}

async function nextStep(
  { body, about }: GatewayError,
  client: Client | undefined,
  subject: Subject,
): Promise<string[]> {
  const { app = '<app>', tool = '' } = subject;
  switch (body.code) {
    case 'UNAUTHORIZED':
      return [tokenHint(client)];
    case 'UNKNOWN_APP': {
      const own = about === undefined ? null : await namesOf(client, (open) => appsOf(open, about.session));
      const live = await namesOf(client, appNames);
      if (own !== null && own.length > 0) return suggest(app, own, `Apps of ${about?.session}`, '', live ?? []);
      return suggest(app, live, 'Registered apps', 'No app is registered yet: svc push <dir>');
    }
    case 'UNKNOWN_QUERY':
    case 'UNKNOWN_ACTION': {
      const list = body.code === 'UNKNOWN_QUERY' ? 'queries' : 'actions';
      const names = await namesOf(client, (open) => toolNames(open, app, list));
      return suggest(tool, names, `Its ${list}`, `It has no ${list}.`);
    }
    case 'UNKNOWN_AUTOMATION':
      return ['List them: svc automations'];
    case 'NO_GIT_STORE':
      return [
        'A data directory keeps its store; start a gateway on a new one: svc serve --store git --data-dir <new folder>',
        'Bring the apps along by pushing them again: svc push <dir>',
      ];
    case 'UNKNOWN_SESSION': {
      const names = await namesOf(client, sessionNames);
      return suggest(subject.session ?? '', names, 'Open sessions', 'No open sessions. Open one: svc sessions open');
    }
    case 'UNKNOWN_TEMPLATE': {
      // The message lists them all.
      const meant = nearest(subject.template ?? '', (await namesOf(client, templateNames)) ?? []);
      return meant === undefined ? [] : [`Did you mean "${meant}"?`];
    }
    case 'MERGE_CONFLICT':
    case 'NO_CHANGES':
    case 'INVALID_MIGRATION':
      if (about === undefined) return [];
      return (await namesOf(client, (open) => sessionHints(body, open, about))) ?? [];
    case 'INVALID_HANDLER':
      return ['The rules: docs/handler-rules.md'];
    case 'UNKNOWN_TOKEN':
      return ['Which there are: svc token ls'];
    case 'UNKNOWN_RUN':
      return ['The latest that are kept: svc runs'];
    case 'UNKNOWN_VERSION':
      return [`Stored versions: svc versions ${app}`];
    case 'NO_ACTIVE_VERSION':
      return [`Make one live: svc versions ${app}, then svc activate ${app} <version>`];
    case 'QUARANTINED':
      return [`See why: svc logs ${app}.  Then push a fixed version, or try again: svc restart ${app}`];
    case 'HANDLER_ERROR':
      return [`Details: svc logs ${app}`];
    case 'INVALID_INPUT':
    case 'WRONG_KIND':
      return [`What it takes: svc describe ${app}`];
    case 'OVERLOADED':
    case 'RATE_LIMITED':
      return ['Try again in a moment.  Who is busy: svc status'];
    case 'INTERNAL':
      return ['The gateway logged the details where it runs (standard error of svc serve).'];
    default:
      return [];
  }
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

/** Asking must not hide the error that is being explained. */
async function namesOf(
  client: Client | undefined,
  ask: (client: Client) => Promise<string[]>,
): Promise<string[] | null> {
  if (client === undefined) return null;
  try {
    return await ask(client);
  } catch {
    return null;
  }
}

async function appNames(client: Client): Promise<string[]> {
  return (await allApps(client)).map(({ id }) => id);
}

async function sessionNames(client: Client): Promise<string[]> {
  return (await allSessions(client)).map(({ sessionId }) => sessionId);
}

async function templateNames(client: Client): Promise<string[]> {
  return (await client.get<TemplateRow[]>('/svc/_templates')).map(({ id }) => id);
}

async function toolNames(client: Client, app: string, list: 'queries' | 'actions'): Promise<string[]> {
  const { data } = await client.post<ToolAnswer<DescribedApp>>('/svc/_tool/svc_describe', { app });
  return data[list].map(({ name }) => name);
}

function linesOf(hint: Hint): readonly string[] {
  return hint === undefined ? [] : [hint].flat();
}

/** What a command line named. `positionals` is the command's usage text: it says which of them is an app. */
export function subjectOf(positionals: string, args: Arguments): Subject {
  return {
    app: args.text('app') ?? appOf(positionals, args) ?? args.text('id'),
    tool: args.optionalAt(1),
    session: args.text('session') ?? args.optionalAt(1),
    template: args.text('clone'),
  };
}

/** `<app>`, or the app of `[app/automation]`; a folder is none. */
function appOf(positionals: string, args: Arguments): string | undefined {
  const index = positionals.split(' ').findIndex((word) => /^[<[]app\b/.test(word));
  const named = args.optionalAt(index);
  if (named === undefined || !positionals.includes('app/automation')) return named;
  return named.includes('/') ? named.slice(0, named.indexOf('/')) : undefined;
}
