/** The automations of all apps: as a list, on a calendar, or one of them. */
import { type Address, hrefOf } from '../address.ts';
import { Tabs } from '../ui/parts.tsx';
import { AutomationView } from './automation.tsx';
import { AutomationList } from './automation-list.tsx';
import { NewLink } from './automation-parts.tsx';
import { Calendar } from './calendar.tsx';
import { NewAutomation } from './new-automation.tsx';

export function AutomationsView({ address }: { address: Address }) {
  const [, app, id] = address.parts;
  if (app !== undefined && id !== undefined) return <AutomationView key={`${app}/${id}`} app={app} id={id} />;
  if (app === 'new') return <NewAutomation wanted={address.query.get('app')} />;
  const isCalendar = app === 'calendar';
  return (
    <>
      <header class="heading">
        <h1>Automations</h1>
        <span class="line heading-end">
          <NewLink />
        </span>
      </header>
      <Tabs
        label="Automations"
        current={isCalendar ? 'calendar' : 'list'}
        tabs={[
          { id: 'list', text: 'List', href: hrefOf(['automations']) },
          { id: 'calendar', text: 'Calendar', href: hrefOf(['automations', 'calendar']) },
        ]}
      />
      {isCalendar ? <Calendar /> : <AutomationList />}
    </>
  );
}
