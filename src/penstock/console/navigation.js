// The side navigation: sections, the pages of each, and which page an address shows.
import { html } from "./html.js";
import { Alarms } from "./pages/alarms.js";
import { Audit } from "./pages/audit.js";
import { Dashboards } from "./pages/dashboards.js";
import { Deliveries } from "./pages/deliveries.js";
import { FilterTester } from "./pages/filter_tester.js";
import { Outbox } from "./pages/outbox.js";
import { Queue } from "./pages/queue.js";
import { Queues } from "./pages/queues.js";
import { Server } from "./pages/server.js";
import { Subscription } from "./pages/subscription.js";
import { Subscriptions } from "./pages/subscriptions.js";
import { Topic } from "./pages/topic.js";
import { Topics } from "./pages/topics.js";

// A row for each section: its pages, of which the first gives the section its name. A service with pages adds a row.
//   address, shows  #/address, and the component that draws it
//   opens           components by address of what belongs to the page, such as one of the queues that it lists
//   permission      without it the page is not offered; pages without this member say themselves what is not allowed
//   key             opens the page after "g"
const SECTIONS = [
  [
    { address: "queues", title: "Queues", shows: Queues, opens: { queue: Queue }, key: "q" },
  ],
  [
    { address: "topics", title: "Topics", shows: Topics, opens: { topic: Topic }, permission: "sns:ListTopics", key: "t" },
    { address: "subscriptions", title: "Subscriptions", shows: Subscriptions, opens: { subscription: Subscription }, permission: "sns:ListSubscriptions", key: "u" },
    { address: "filter-tester", title: "Filter tester", shows: FilterTester, permission: "penstock:TestFilterPolicy", key: "f" },
    { address: "deliveries", title: "Waiting deliveries", shows: Deliveries, permission: "penstock:ListWaitingDeliveries", key: "w" },
    { address: "outbox", title: "Outbox", shows: Outbox, permission: "penstock:ListOutbox", key: "o" },
  ],
  [
    { address: "server", title: "Server", shows: Server, permission: "penstock:GetStatus", key: "s" },
    { address: "alarms", title: "Alarms", shows: Alarms, permission: "cloudwatch:DescribeAlarms", key: "a" },
    { address: "dashboards", title: "Dashboards", shows: Dashboards, permission: "cloudwatch:ListDashboards", key: "d" },
    { address: "audit", title: "Audit log", shows: Audit, permission: "penstock:ListAuditEvents", key: "l" },
  ],
];

const PAGES = SECTIONS.flat();
const HOME = PAGES[0];

// By the letter that is typed after "g".
export const KEYS = new Map(PAGES.filter(({ key }) => key).map((page) => [page.key, page]));

// The page of an address with the component to draw, and the permission that it lacks; null if there is none.
export function pageAt([address = ""], allowed) {
  const page = address ? PAGES.find((each) => each.address === address || each.opens?.[address]) : HOME;
  if (!page) return null;
  const Opened = page.opens?.[address];
  return { page, Shown: Opened ?? page.shows, lacks: !Opened && !mayOpen(page, allowed) ? page.permission : "" };
}

const mayOpen = ({ permission }, allowed) => !permission || allowed.has(permission);

// Sections of which the user may open a page. "current" is the page that is shown, also while it shows one of its queues.
export function Navigation({ current, allowed, focused, onChoose }) {
  const link = (page, title, state) => html`<a href=${`#/${page.address}`} aria-current=${state} autofocus=${focused && state === "page"}
    onClick=${onChoose}>${title}</a>`;
  const stateOf = (page) => (page === current ? "page" : undefined);
  const section = ([main, ...pages]) => {
    const offered = pages.filter((page) => mayOpen(page, allowed));
    if (!mayOpen(main, allowed) && !offered.length) return null;
    const inside = offered.includes(current) ? "true" : undefined;
    return html`<li key=${main.address}>
      ${mayOpen(main, allowed) ? link(main, main.title, inside ?? stateOf(main)) : html`<span>${main.title}</span>`}
      ${offered.length > 0 && html`<ul>${offered.map((page) => html`<li key=${page.address}>${link(page, page.title, stateOf(page))}</li>`)}</ul>`}
    </li>`;
  };
  return html`<nav aria-label="Pages"><ul>${SECTIONS.map(section)}</ul></nav>`;
}
