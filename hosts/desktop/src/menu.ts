/** Makes the menu of the tray: our apps, the other gateways, and what the program itself offers. Pure. */
import type { Profile } from './gateways.ts';
import { LOCAL } from './gateways.ts';
import type { Destination } from './links.ts';
import type { MenuItem } from './shell.ts';

export type MenuApp = { id: string; name: string };
/** `apps` null: it does not answer. */
export type MenuGateway = { profile: Profile; apps: MenuApp[] | null };

export type MenuState = { gateways: MenuGateway[]; isProtected: boolean; startsAtLogin: boolean };
export type MenuActions = {
  open(destination: Destination): void;
  add(): void;
  remove(profile: Profile): void;
  explainToken(): void;
  copyToken(): void;
  setStartAtLogin(open: boolean): void;
  quit(): void;
  stopAndQuit(): void;
};

const LINE: MenuItem = { type: 'separator' };
/** Apps in one menu. */
const SHOWN = 30;

export function menuOf({ gateways, isProtected, startsAtLogin }: MenuState, actions: MenuActions): MenuItem[] {
  const own = gateways.filter(({ profile }) => profile.id === LOCAL);
  const others = gateways.filter(({ profile }) => profile.id !== LOCAL);
  return [
    ...own.flatMap((gateway) => pagesOf(gateway, actions)),
    LINE,
    ...others.map((gateway) => ({
      label: gateway.profile.label,
      submenu: [
        ...pagesOf(gateway, actions),
        LINE,
        { label: 'Forget this gateway…', click: () => actions.remove(gateway.profile) },
      ],
    })),
    { label: 'Add a gateway…', click: actions.add },
    LINE,
    ...(isProtected ? [] : [{ label: 'The tokens are not protected here…', click: actions.explainToken }]),
    { label: 'Copy address and token', click: actions.copyToken },
    {
      label: 'Start at login',
      checked: startsAtLogin,
      click: () => actions.setStartAtLogin(!startsAtLogin),
    },
    LINE,
    { label: 'Quit, and leave the gateway running', click: actions.quit },
    { label: 'Stop the gateway and quit', click: actions.stopAndQuit },
  ];
}

function pagesOf({ profile, apps }: MenuGateway, { open }: MenuActions): MenuItem[] {
  const to = (app: string | null) => () => open({ gateway: profile.id, app });
  const console = { label: 'Console', click: to(null) };
  if (apps === null) return [{ label: 'It does not answer' }, console];
  const more = apps.length - SHOWN;
  return [
    console,
    LINE,
    ...apps.slice(0, SHOWN).map(({ id, name }) => ({ label: name, click: to(id) })),
    ...(more > 0 ? [{ label: `${more} more in the console`, click: to(null) }] : []),
  ];
}
