/** What a command line named, for the explanation of an error. */
import type { Arguments } from './arguments.ts';
import type { Subject } from './explain.ts';

/** `positionals` is the command's usage text: it says which of them is an app. */
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
