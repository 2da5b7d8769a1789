/** The gateway itself: its processes live, what runs cost, its backups and its trash. */
import type { VNode } from 'preact';
import { type Address, hrefOf } from '../address.ts';
import { Tabs } from '../ui/parts.tsx';
import { Backups } from './backups.tsx';
import { InsightsView } from './insights.tsx';
import { Processes } from './processes.tsx';
import { Trash } from './trash.tsx';

const VIEWS: Record<string, (props: { query: URLSearchParams }) => VNode> = {
  processes: () => <Processes />,
  insights: InsightsView,
  backups: () => <Backups />,
  trash: () => <Trash />,
};

export function SystemView({ address }: { address: Address }) {
  const named = address.parts[1] ?? '';
  const current = Object.hasOwn(VIEWS, named) ? named : 'processes';
  const View = VIEWS[current]!;
  return (
    <>
      <header class="heading">
        <h1>System</h1>
      </header>
      <Tabs
        label="System"
        current={current}
        tabs={[
          { id: 'processes', text: 'Processes', href: hrefOf(['system']) },
          { id: 'insights', text: 'Insights', href: hrefOf(['system', 'insights']) },
          { id: 'backups', text: 'Backups', href: hrefOf(['system', 'backups']) },
          { id: 'trash', text: 'Trash', href: hrefOf(['system', 'trash']) },
        ]}
      />
      <View query={address.query} />
    </>
  );
}
