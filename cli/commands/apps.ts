/** `svc apps`: the registered apps. */

import type { AppRecord } from '../../protocol/answers.ts';
import type { CommandContext } from '../command.ts';
import { drawState } from '../status-view.ts';
import { formatAge } from '../terminal/units.ts';

export async function run({ terminal, connect }: CommandContext): Promise<void> {
  const apps = await connect().get<AppRecord[]>('/svc/_apps');
  terminal.answer(apps, () => {
    if (apps.length === 0) {
      terminal.line('No app is registered yet. Make one: svc new notes && svc push notes');
      return;
    }
    const now = Date.now();
    terminal.table(
      [
        { title: 'APP' },
        { title: 'NAME' },
        { title: 'STATE' },
        { title: 'VERSION' },
        { title: 'QUERIES', align: 'right' },
        { title: 'ACTIONS', align: 'right' },
        { title: 'UPDATED' },
      ],
      apps.map((app) => [
        { text: app.id, format: 'bold' },
        app.name,
        drawState(app.status),
        app.version,
        String(app.queries),
        String(app.actions),
        { text: formatAge(app.updatedAt, now), format: 'dim' },
      ]),
    );
  });
}
