/** The gateway itself: its processes live, its cluster, what runs cost, its notices, its backups, its trash, who did what, and how long browsers stay signed in. */
import type { VNode } from 'preact';
import { type Address, hrefOf } from '../address.ts';
import { useGateway } from '../gateway-state.tsx';
import { Tabs } from '../ui/parts.tsx';
import { AuditView } from './audit.tsx';
import { Backups } from './backups.tsx';
import { Cluster } from './cluster.tsx';
import { InsightsView } from './insights.tsx';
import { NoticesView } from './notices.tsx';
import { Processes } from './processes.tsx';
import { SignInView } from './sign-in-length.tsx';
import { Trash } from './trash.tsx';

const VIEWS: Record<string, (props: { query: URLSearchParams }) => VNode> = {
  processes: () => <Processes />,
  cluster: () => <Cluster />,
  insights: InsightsView,
  notices: () => <NoticesView />,
  backups: () => <Backups />,
  trash: () => <Trash />,
  audit: () => <AuditView />,
  'sign-in': () => <SignInView />,
};

export function SystemView({ address }: { address: Address }) {
  const { hasSessions, system } = useGateway();
  const named = address.parts[1] ?? '';
  const isNode = system?.cluster?.node != null;
  const current = Object.hasOwn(VIEWS, named) && (named !== 'cluster' || isNode) ? named : 'processes';
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
          ...(isNode ? [{ id: 'cluster', text: 'Cluster', href: hrefOf(['system', 'cluster']) }] : []),
          { id: 'insights', text: 'Insights', href: hrefOf(['system', 'insights']) },
          { id: 'notices', text: 'Notices', href: hrefOf(['system', 'notices']) },
          { id: 'backups', text: 'Backups', href: hrefOf(['system', 'backups']) },
          { id: 'trash', text: 'Trash', href: hrefOf(['system', 'trash']) },
          { id: 'audit', text: 'Audit', href: hrefOf(['system', 'audit']) },
          ...(hasSessions ? [{ id: 'sign-in', text: 'Sign-in', href: hrefOf(['system', 'sign-in']) }] : []),
        ]}
      />
      <View query={address.query} />
    </>
  );
}
