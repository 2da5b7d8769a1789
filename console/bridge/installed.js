/**
 * Links what a browser installs a page by, where the page links nothing of its own: no header can name a manifest. The page as it
 * is stored stays as its author wrote it, and pages that were stored before have it too.
 */
const LINKS = { manifest: 'manifest.webmanifest', 'apple-touch-icon': 'apple-touch-icon.png', icon: 'favicon.ico' };

/** `folder` is the address of the app's files. */
export function linkInstalled(folder) {
  for (const [rel, file] of Object.entries(LINKS)) {
    if (document.querySelector(`link[rel~="${rel}" i]`)) continue;
    const link = document.createElement('link');
    link.rel = rel;
    link.href = folder + file;
    // Without it, browsers ask for a manifest without the session.
    if (rel === 'manifest') link.crossOrigin = 'use-credentials';
    document.head.append(link);
  }
}
