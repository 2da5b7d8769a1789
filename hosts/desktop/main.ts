/** The entry of the desktop program: the only file that touches Electron. It gives the rest what `src/shell.ts` asks for. */
import { join } from 'node:path';
import {
  app,
  BrowserWindow,
  clipboard,
  crashReporter,
  dialog,
  ipcMain,
  Menu,
  type MenuItemConstructorOptions,
  nativeImage,
  safeStorage,
  session,
  shell as system,
  Tray,
  type WebContents,
} from 'electron';
import { CrashLog } from './src/crash-log.ts';
import { Desktop } from './src/desktop.ts';
import { SCHEME } from './src/links.ts';
import { HIDDEN } from './src/login.ts';
import type { MenuItem, Shell, ShellWindow, WindowOptions } from './src/shell.ts';

/** What the pages of a gateway may ask the system for; everything else is refused. */
const PERMISSIONS = new Set(['clipboard-sanitized-write', 'fullscreen', 'notifications']);
const FORM = 'add.html';

const packed = app.isPackaged;
const here = app.getAppPath();
const resources = packed ? process.resourcesPath : join(here, 'build');
const asset = (name: string) => join(here, 'assets', name);

let tray: Tray | null = null;
let form: BrowserWindow | null = null;

function openWindow({ partition, note, wayTo, onClosed }: WindowOptions): ShellWindow {
  const webPreferences = { partition, sandbox: true, contextIsolation: true, nodeIntegration: false };
  const window = new BrowserWindow({ width: 1120, height: 800, autoHideMenuBar: true, webPreferences });
  const own = session.fromPartition(partition);
  own.setPermissionRequestHandler((_contents, permission, answer) => answer(PERMISSIONS.has(permission)));
  own.setPermissionCheckHandler((_contents, permission) => PERMISSIONS.has(permission));
  const guard = (contents: WebContents) => {
    const stays = (url: string): boolean => {
      const way = wayTo(url);
      if (way === 'outside') void system.openExternal(url);
      return way === 'here';
    };
    contents.on('will-navigate', (event) => {
      if (!stays(event.url)) event.preventDefault();
    });
    contents.on('will-redirect', (event) => {
      if (event.isMainFrame && !stays(event.url)) event.preventDefault();
    });
    contents.setWindowOpenHandler(({ url }) =>
      stays(url)
        ? { action: 'allow', overrideBrowserWindowOptions: { autoHideMenuBar: true, webPreferences } }
        : { action: 'deny' },
    );
    contents.on('did-create-window', (opened) => guard(opened.webContents));
  };
  guard(window.webContents);
  window.on('page-title-updated', (event, title) => {
    event.preventDefault();
    window.setTitle(`${title}${note}`);
  });
  window.on('closed', onClosed);
  return {
    // A page that cannot be shown says so itself.
    load: (url) => window.loadURL(url).catch(() => {}),
    focus() {
      if (window.isMinimized()) window.restore();
      window.show();
      window.focus();
    },
    close: () => window.close(),
  };
}

function drawn(items: MenuItem[]): MenuItemConstructorOptions[] {
  return items.map((item) => {
    if ('type' in item) return { type: 'separator' };
    const { label, click, checked, submenu } = item;
    return {
      label,
      enabled: click !== undefined || submenu !== undefined,
      ...(click && { click: () => click() }),
      ...(checked !== undefined && { type: 'checkbox', checked }),
      ...(submenu && { submenu: drawn(submenu) }),
    };
  });
}

function setMenu(items: MenuItem[]): void {
  tray ??= new Tray(nativeImage.createFromPath(asset(process.platform === 'darwin' ? 'trayTemplate.png' : 'tray.png')));
  tray.setToolTip('svc');
  const own = drawn(items);
  tray.setContextMenu(Menu.buildFromTemplate(own));
  // In the windows too: some desktops show no tray.
  const roles: MenuItemConstructorOptions[] = [{ role: 'editMenu' }, { role: 'viewMenu' }, { role: 'windowMenu' }];
  Menu.setApplicationMenu(Menu.buildFromTemplate([{ label: 'svc', submenu: own }, ...roles]));
}

function askForGateway(add: Parameters<Shell['askForGateway']>[0]): void {
  form?.close();
  const preload = join(here, 'preload.cjs');
  const window = new BrowserWindow({
    width: 460,
    height: 420,
    resizable: false,
    autoHideMenuBar: true,
    webPreferences: { preload, sandbox: true, contextIsolation: true, nodeIntegration: false },
  });
  form = window;
  window.webContents.on('will-navigate', (event) => event.preventDefault());
  window.webContents.setWindowOpenHandler(() => ({ action: 'deny' }));
  ipcMain.removeHandler('add-gateway');
  ipcMain.handle('add-gateway', async (event, entry: Record<string, unknown>) => {
    if (event.sender !== window.webContents) return 'This page may not add a gateway.';
    const { url, label, token } = entry;
    const problem = await add({ url: String(url ?? ''), label: String(label ?? ''), token: String(token ?? '') });
    if (problem === null) window.close();
    return problem;
  });
  window.on('closed', () => {
    if (form === window) form = null;
  });
  void window.loadFile(join(here, FORM));
}

// Not the folder by the program's name, which is that of the command line.
app.setPath('userData', app.commandLine.getSwitchValue('user-data-dir') || join(app.getPath('appData'), 'svc-desktop'));

// A second start hands its words to the first one, and ends.
if (!app.requestSingleInstanceLock()) app.quit();
else {
  // What crashes outside of our code leaves a minidump beside the log; nothing is sent anywhere.
  crashReporter.start({ uploadToServer: false });
  app.setAsDefaultProtocolClient(SCHEME);
  const crashes = new CrashLog(app.getPath('userData'), app.getVersion());
  process.on('uncaughtException', (error) => crashes.error('An error was not caught.', error));
  process.on('unhandledRejection', (error) => crashes.error('A rejection was not handled.', error));
  app.on('render-process-gone', (_event, contents, details) =>
    crashes.note('A page crashed.', { url: contents.getURL().replace(/#.*/, ''), ...details }),
  );
  app.on('child-process-gone', (_event, details) => crashes.note('A process of Electron ended.', { ...details }));

  const shell: Shell = {
    platform: process.platform,
    env: process.env,
    version: app.getVersion(),
    userData: app.getPath('userData'),
    program: app.getPath('exe'),
    node: join(resources, 'node', 'bin', 'node'),
    gatewayScript: join(resources, 'gateway', 'daemon.mjs'),
    safeStorage,
    openWindow,
    askForGateway,
    setMenu,
    async ask({ message, detail, buttons }) {
      const answer = await dialog.showMessageBox({
        message,
        detail,
        buttons,
        cancelId: buttons.length - 1,
        noLink: true,
      });
      return answer.response;
    },
    copy: (text) => clipboard.writeText(text),
    loginItem: {
      get: () => app.getLoginItemSettings().openAtLogin,
      set: (openAtLogin) => app.setLoginItemSettings({ openAtLogin, args: [HIDDEN] }),
    },
    quit: () => app.quit(),
  };
  const desktop = new Desktop(shell, crashes);
  const ready = app.whenReady().then(() => desktop.start(process.argv.slice(packed ? 1 : 2)));
  ready.catch((error: unknown) => crashes.error('The program did not start.', error));
  app.on('second-instance', (_event, words) => void ready.then(() => desktop.startedAgain(words)));
  app.on('open-url', (event, url) => {
    event.preventDefault();
    void ready.then(() => desktop.follow(url));
  });
  app.on('activate', () => void ready.then(() => desktop.startedAgain([])));
  // It stays in the tray, with the gateway.
  app.on('window-all-closed', () => {});
}
