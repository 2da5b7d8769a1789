/**
 * Draws the icons with which a page is installed (specification, "Installed pages"): from the app's `icon.svg` when a version
 * is stored, or from its initial when somebody asks for them.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { InputIssue } from '../../../protocol/errors.ts';
import { APP_ICON, DRAWN_ICONS, tileOf } from '../../../protocol/http/icons.ts';
import { LIMITS } from '../../../protocol/limits.ts';
import type { TileJob } from '../../../protocol/wire/jobs.ts';
import type { ExtractedFile } from './extracted.ts';
import { encodePng } from './png.ts';
import { type Draw, drawing, type Picture, SvgFault } from './svg.ts';

/** Name → PNG; and why there are none. */
export type Icons = { files: ReadonlyMap<string, Buffer>; warnings: InputIssue[] };

/** Nobody installs the page, or its icons are not drawn here. */
export const NO_ICONS: Icons = { files: new Map(), warnings: [] };

/** The page that is installed. */
const PAGE = 'index.html';
/** Without fonts, these would be missing in what is drawn. A comment is taken as a whole, also one that does not end. */
const TEXT_OR_COMMENT = /<!--[\s\S]*?(?:-->|$)|<(?:\w+:)?(text|foreignObject)[\s/>]/g;

/** The drawings of this thread by their SVG, the newest last: the same app is often stored again. */
const kept = new Map<string, ReadonlyMap<string, Buffer>>();
const KEPT = 8;

/**
 * Of an app with a page and an icon. None where the library is missing: the page is then installed with the SVG. Never rejects: an
 * icon that cannot be drawn is a warning.
 */
export async function drawIcons(code: string, files: readonly ExtractedFile[]): Promise<Icons> {
  const own = files.find(({ path }) => path === APP_ICON);
  if (own === undefined || !files.some(({ path }) => path === PAGE)) return NO_ICONS;
  try {
    return { files: await draw(readOwn(code, own)), warnings: [] };
  } catch (error) {
    return error instanceof SvgFault ? { files: NO_ICONS.files, warnings: [undrawn(error)] } : NO_ICONS;
  }
}

/** One of an app whose icon is its initial: a PNG. */
export async function drawTile({ app, name }: TileJob): Promise<Uint8Array> {
  const png = (await draw(tileOf(app))).get(name);
  if (png === undefined) throw new Error(`No icon is called ${name}.`);
  return png;
}

function readOwn(code: string, { bytes }: ExtractedFile): string {
  if (bytes > LIMITS.iconBytes) throw new SvgFault(`it has more than ${LIMITS.iconBytes} bytes; make it simpler`);
  const svg = readFileSync(join(code, APP_ICON), 'utf8');
  for (const [, element] of svg.matchAll(TEXT_OR_COMMENT))
    if (element !== undefined) throw new SvgFault(`it has <${element}>, and only a page has fonts; turn it into paths`);
  return svg;
}

function undrawn({ message: why }: SvgFault): InputIssue {
  const message = `It cannot be drawn for home screens, which show the initial of the app instead: ${why}.`;
  return { path: APP_ICON, message, keyword: 'icon' };
}

async function draw(svg: string): Promise<ReadonlyMap<string, Buffer>> {
  const known = kept.get(svg);
  if (known !== undefined) return known;
  const pictures = await drawing(svg, picturesOf);
  const files = new Map([...pictures].map(([name, picture]) => [name, encodePng(picture)]));
  kept.set(svg, files);
  for (const oldest of kept.keys()) if (kept.size > KEPT) kept.delete(oldest);
  return files;
}

/** The icon at each size, and on a ground where it has to fill its square. */
function picturesOf(draw: Draw): Map<string, Picture> {
  const { ground, scale } = look(draw(LOOKED_AT));
  const drawn = new Map<number, Picture>();
  const once = (size: number): Picture => {
    const picture = drawn.get(size) ?? draw(size);
    drawn.set(size, picture);
    return picture;
  };
  return new Map(
    DRAWN_ICONS.map(({ name, size, purpose }) => [
      name,
      purpose === 'any' ? once(size) : on(ground, once(Math.round(size * scale)), size),
    ]),
  );
}

type Colour = readonly [red: number, green: number, blue: number];
type Looks = { ground: Colour; scale: number };

/** Of a maskable icon's size: what is nearer to the middle is always seen (Web App Manifest, "Icon masks and safe zone"). */
const SAFE_RADIUS = 0.4;
const LIGHT: Colour = [255, 255, 255];
const DARK: Colour = [31, 34, 38];
/** Enough to see where an icon ends. */
const LOOKED_AT = 64;
/** Differences of a channel that nobody sees. */
const ALIKE = 24;
const OPAQUE = 250;
/** A circle fills three quarters of its box. */
const FILLED = 0.6;
/** Where a side of an icon is looked at, along it and from its edge: between round corners, in a circle too. */
const ALONG = [0.42, 0.5, 0.58];
const INSET = 0.06;

/**
 * What is to be behind an icon, and how large it is drawn there. A shape that is filled goes on to the edges in its own colour; one
 * that stands free is put on a ground that it contrasts with.
 */
function look(picture: Picture): Looks {
  const box = boxOf(picture);
  const sides = ALONG.flatMap((along) => [
    [along, INSET],
    [along, 1 - INSET],
    [INSET, along],
    [1 - INSET, along],
  ]).map(([x = 0, y = 0]) =>
    pixel(picture, Math.floor(box.left + x * box.width), Math.floor(box.top + y * box.height)),
  );
  if (box.filled < FILLED || sides.some(([, , , alpha]) => alpha < OPAQUE)) {
    const ground = isLight(picture) ? DARK : LIGHT;
    return { ground, scale: fitting(reach(picture, ([, , , alpha]) => alpha > 255 - OPAQUE)) };
  }
  const ground = medianOf(sides);
  const differs = (at: Pixel) => ground.some((channel, i) => Math.abs((at[i] as number) - channel) > ALIKE);
  // One that is not even at its sides has no edge to go on from: it is as large as it was.
  if (sides.some(differs)) return { ground, scale: 1 };
  return { ground, scale: fitting(reach(picture, (at) => at[3] >= OPAQUE && differs(at))) };
}

function fitting(radius: number): number {
  return Math.min(1, SAFE_RADIUS / radius);
}

type Pixel = readonly [red: number, green: number, blue: number, alpha: number];

function pixel({ size, pixels }: Picture, x: number, y: number): Pixel {
  const at = (y * size + x) * 4;
  return [pixels[at] as number, pixels[at + 1] as number, pixels[at + 2] as number, pixels[at + 3] as number];
}

/** Calls `visit` with each pixel. */
function each(picture: Picture, visit: (pixel: Pixel, x: number, y: number) => void): void {
  const { size } = picture;
  for (let y = 0; y < size; y++) for (let x = 0; x < size; x++) visit(pixel(picture, x, y), x, y);
}

/** Around what is not transparent, with the part of it that is opaque. Throws for a picture of nothing. */
function boxOf(picture: Picture): { left: number; top: number; width: number; height: number; filled: number } {
  let [left, top, right, bottom, opaque] = [picture.size, picture.size, -1, -1, 0];
  each(picture, ([, , , alpha], x, y) => {
    if (alpha === 0) return;
    left = Math.min(left, x);
    right = Math.max(right, x);
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
    if (alpha >= OPAQUE) opaque++;
  });
  if (right < 0) throw new SvgFault('it shows nothing; draw something within its viewBox');
  const [width, height] = [right - left + 1, bottom - top + 1];
  return { left, top, width, height, filled: opaque / (width * height) };
}

/** How far from the middle there is something, as a part of the size. */
function reach(picture: Picture, isThere: (pixel: Pixel) => boolean): number {
  const middle = (picture.size - 1) / 2;
  let radius = 0;
  each(picture, (at, x, y) => {
    if (isThere(at)) radius = Math.max(radius, Math.hypot(x - middle, y - middle));
  });
  return radius / picture.size;
}

function medianOf(pixels: Pixel[]): Colour {
  const median = (channel: number) =>
    pixels.map((at) => at[channel] as number).sort((a, b) => a - b)[pixels.length >> 1] as number;
  return [median(0), median(1), median(2)];
}

/** Whether white would hide it, by the luma of what there is. */
function isLight(picture: Picture): boolean {
  let [luma, there] = [0, 0];
  each(picture, ([red, green, blue, alpha]) => {
    luma += 0.299 * red + 0.587 * green + 0.114 * blue;
    there += alpha;
  });
  return luma / there > 0.7;
}

/** A picture in the middle of a larger one of one colour. */
function on([red, green, blue]: Colour, { size: inner, pixels: drawn }: Picture, size: number): Picture {
  const pixels = new Uint8Array(Buffer.alloc(size * size * 4, Buffer.from([red, green, blue, 255])));
  const margin = (size - inner) >> 1;
  let from = 0;
  for (let y = 0; y < inner; y++) {
    let to = ((y + margin) * size + margin) * 4;
    for (let x = 0; x < inner; x++, from += 4, to += 4) {
      const behind = 1 - (drawn[from + 3] as number) / 255;
      pixels[to] = (drawn[from] as number) + red * behind;
      pixels[to + 1] = (drawn[from + 1] as number) + green * behind;
      pixels[to + 2] = (drawn[from + 2] as number) + blue * behind;
    }
  }
  return { size, pixels };
}
