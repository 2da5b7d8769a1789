/** Makes the text of an `icon.svg` of a picture that somebody chose: an SVG as it is, others drawn small and put into one. */
import { LIMITS } from '../../../protocol/limits.ts';

/** Sides in pixels, of which the first is taken that is small enough as a file. */
const SIDES = [256, 192, 128];

/** Rejects for what the browser cannot show, and for what stays too large. */
export async function iconOf(file: File): Promise<string> {
  const text = file.type === 'image/svg+xml' ? await file.text() : await drawn(file);
  if (new Blob([text]).size > LIMITS.iconBytes)
    throw new Error(`The icon has more than ${LIMITS.iconBytes / 1024} KiB: choose a simpler one.`);
  return text;
}

async function drawn(file: File): Promise<string> {
  const picture = await createImageBitmap(file).catch(() => {
    throw new Error(`${file.name} is no picture that this browser shows.`);
  });
  let svg = '';
  for (const side of SIDES) {
    svg = wrapped(square(picture, side), side);
    if (svg.length <= LIMITS.iconBytes) break;
  }
  picture.close();
  return svg;
}

/** The middle of the picture, as the address of a PNG. */
function square(picture: ImageBitmap, side: number): string {
  const canvas = document.createElement('canvas');
  canvas.width = side;
  canvas.height = side;
  const cut = Math.min(picture.width, picture.height);
  const [left, top] = [(picture.width - cut) / 2, (picture.height - cut) / 2];
  canvas.getContext('2d')?.drawImage(picture, left, top, cut, cut, 0, 0, side, side);
  return canvas.toDataURL('image/png');
}

const wrapped = (address: string, side: number): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${side} ${side}"><image width="${side}" height="${side}" href="${address}"/></svg>\n`;
