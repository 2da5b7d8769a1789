/** Addresses of the gateway's routes that name something. */

export function appPath(id: string, rest = ''): string {
  return `/svc/_apps/${encodeURIComponent(id)}${rest}`;
}

/** `ref` is `<app>/<automation>`. */
export function automationPath(ref: string, rest = ''): string {
  return `/svc/_automations/${ref.split('/').map(encodeURIComponent).join('/')}${rest}`;
}

export function runPath(id: string, rest = ''): string {
  return `/svc/_runs/${encodeURIComponent(id)}${rest}`;
}

/** A path with the parameters that have a value. */
export function withQuery(path: string, parameters: Record<string, string | number | undefined>): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) given.set(name, String(value));
  }
  return given.size === 0 ? path : `${path}?${given}`;
}

export function tokenPath(id: string): string {
  return `/svc/_tokens/${encodeURIComponent(id)}`;
}

export function sessionPath(id: string, rest = ''): string {
  return `/svc/_sessions/${encodeURIComponent(id)}${rest}`;
}

/** The files of an app in a session, or one of them. */
export function filesPath(session: string, app: string, file?: string): string {
  const path = file === undefined ? '' : `/${file.split('/').map(encodeURIComponent).join('/')}`;
  return sessionPath(session, `/apps/${encodeURIComponent(app)}/files${path}`);
}

/** What a session's draft of an app serves. */
export function draftPath(session: string, rest: string): string {
  return `/svc/_draft/${encodeURIComponent(session)}/${rest}`;
}
