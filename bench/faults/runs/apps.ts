/** The apps of the campaign `runs`: automations that a webhook or the clock fires, and a table that says which fire wrote. */
import { type AppSource, appOf } from '../../../testing/apps.ts';

/** Plain webhooks of an app. Each takes 60 posts a minute and one at a time, so there are several. */
const HOOKS = 6;
/** Runs that the automation `few` keeps. */
export const KEPT = 5;

/** Writes its key into the table, then takes some time, so that it may be struck before, between and after. */
const handler = (app: string, key: string): string => `async ({ ctx, input }) => {
  const key = ${key};
  await ctx.tool('svc_write', { app: '${app}', action: 'note', input: { key } });
  await new Promise((go) => setTimeout(go, input?.ms ?? 0));
  return { summary: key };
}`;

/** The app's automations: `hook-…` and `signed` by webhook, `tick` and `few` each second. Nothing in its table is unique. */
export function hookApp(id: string): Record<string, string | Buffer> {
  const automations: AppSource['automations'] = {};
  const add = (name: string, members: Record<string, unknown>, key: string) => {
    automations[name] = { run: handler(id, key), history: { keep: 'all' }, ...members };
  };
  const webhook = { kind: 'webhook', pending: true };
  for (let n = 0; n < HOOKS; n++) add(`hook-${n}`, { triggers: [webhook] }, 'input.key');
  add('signed', { triggers: [{ ...webhook, signing: true }] }, 'input.key');
  const everySecond = { kind: 'cron', expr: '* * * * * *' };
  add('tick', { triggers: [everySecond] }, 'new Date(ctx.now).toISOString()');
  add('few', { triggers: [everySecond], history: { keep: { count: KEPT } } }, "'few'");
  return appOf(id, {
    actions: {
      note: `async ({ input, db }) => {
        await db.run('INSERT INTO fires VALUES (?)', [input.key]);
        return { status: 201, body: null };
      }`,
    },
    migrations: ['CREATE TABLE fires (key TEXT NOT NULL); CREATE INDEX fires_key ON fires (key);'],
    automations,
  });
}
