/** The data of an app: its tables row by row, and SQL by hand. */
import { hrefOf } from '../../address.ts';
import { usePolled } from '../../polled.ts';
import { Empty, Loading, Problem, Tabs } from '../../ui/parts.tsx';
import type { AppViewProps } from '../views.ts';
import { TableGrid } from './grid.tsx';
import { SqlPanel } from './sql-panel.tsx';
import { readTable, readTables } from './tables.ts';

export function AppDataView({ app, address }: AppViewProps) {
  const { value: tables, error, reload } = usePolled((signal) => readTables(app.id, signal), `tables ${app.id}`, 0);
  const isSql = address.query.has('sql');
  const asked = address.query.get('table') ?? tables?.[0]?.name;
  if (!tables) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  return (
    <div class="data-view">
      <Tabs
        label="Tables"
        current={isSql ? 'sql:' : `table:${asked}`}
        tabs={[
          ...tables.map(({ name }) => ({
            id: `table:${name}`,
            text: name,
            href: hrefOf(['apps', app.id, 'data'], { table: name }),
          })),
          { id: 'sql:', text: 'SQL', href: hrefOf(['apps', app.id, 'data'], { sql: 1 }) },
        ]}
      />
      {isSql ? (
        <SqlPanel app={app.id} tables={tables.map(({ name }) => name)} onSchemaChange={reload} />
      ) : asked === undefined ? (
        <Empty title="The app has no tables">
          <p class="hint">
            Tables are made by files in <code>migrations/</code>, such as <code>0001_init.sql</code>.
          </p>
        </Empty>
      ) : (
        <OneTable key={asked} app={app.id} name={asked} query={address.query} />
      )}
    </div>
  );
}

function OneTable({ app, name, query }: { app: string; name: string; query: URLSearchParams }) {
  const { value: table, error, reload } = usePolled((signal) => readTable(app, name, signal), `${app} ${name}`, 0);
  if (table === null) return <Empty title={`There is no table “${name}”`} />;
  if (!table) return error ? <Problem error={error} retry={reload} /> : <Loading />;
  return <TableGrid app={app} table={table} query={query} />;
}
