/** Small apps for tests, written as the code of their handlers. */

/** A tool: the source of its handler, alone or with the rest of its definition. */
export type ToolSource = string | ({ run: string } & Record<string, unknown>);

export type AppSource = {
  queries?: Record<string, ToolSource>;
  actions?: Record<string, ToolSource>;
  /** The rest of the definition is that of `automation.json`. */
  automations?: Record<string, ToolSource>;
  /** Migrations in order. */
  migrations?: string[];
  /** Other files by name. */
  files?: Record<string, string | Buffer>;
  /** More members of the manifest. */
  manifest?: Record<string, unknown>;
};

/** The files of an app: `app.json`, a file for each handler and migration, and the others. */
export function appOf(id: string, source: AppSource = {}): Record<string, string | Buffer> {
  const files: Record<string, string | Buffer> = {};
  const tools = (list: 'queries' | 'actions') =>
    Object.entries(source[list] ?? {}).map(([name, tool]) => {
      const { run, ...definition } = typeof tool === 'string' ? { run: tool } : tool;
      files[`${list}/${name}.js`] = `export default ${run};\n`;
      return { name, ...definition };
    });
  const manifest = { id, name: id, version: '1.0.0', queries: tools('queries'), actions: tools('actions') };
  files['app.json'] = JSON.stringify({ ...manifest, ...source.manifest });
  for (const [i, sql] of (source.migrations ?? []).entries()) {
    files[`migrations/${String(i + 1).padStart(4, '0')}_step.sql`] = sql;
  }
  for (const [name, fired] of Object.entries(source.automations ?? {})) {
    const { run, ...members } = typeof fired === 'string' ? { run: fired } : fired;
    files[`automations/${name}/automation.json`] = automation(members);
    files[`automations/${name}/handler.js`] = `export default ${run};\n`;
  }
  return { ...files, ...source.files };
}

/** The text of a valid `automation.json` with these members. */
export function automation(members: Record<string, unknown> = {}): string {
  return JSON.stringify({
    name: 'Daily',
    prompt: 'Does it every day.',
    generated: { by: 'hand', at: '2026-01-31T08:00:00Z' },
    ...members,
  });
}
