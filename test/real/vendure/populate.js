// Fills an empty database with a small shop: one country, one tax, one way to ship, two ways to pay, 24 things to buy.
const fs = require('fs');
const { bootstrap } = require('@vendure/core');
const { populate } = require('@vendure/core/cli');
const { config } = require('./config');

// Odd cents on purpose: with 20 % tax they round differently by piece and by line.
const products = ['Mug', 'Cup', 'Pot', 'Jug', 'Bowl', 'Vase', 'Plate', 'Glass', 'Spoon', 'Ladle', 'Tray', 'Jar'].map(
  (name, i) => ({
    name,
    sizes: [
      { size: 'small', sku: `${name.toUpperCase()}-S`, cents: 1053 + 117 * i },
      { size: 'large', sku: `${name.toUpperCase()}-L`, cents: 1299 + 131 * i },
    ],
  }),
);

const header = [
  'name', 'slug', 'description', 'assets', 'facets', 'optionGroups', 'optionValues', 'sku', 'price',
  'taxCategory', 'stockOnHand', 'trackInventory', 'variantAssets', 'variantFacets',
];

// A product's first line carries the product and its first variant, the following ones a variant each.
function lines({ name, sizes }) {
  return sizes.map(({ size, sku, cents }, i) => {
    const cells = {
      optionValues: size, sku, price: (cents / 100).toFixed(2),
      taxCategory: 'standard', stockOnHand: '100000', trackInventory: 'false',
    };
    if (i === 0) {
      Object.assign(cells, { name, slug: name.toLowerCase(), description: `A ${name.toLowerCase()}`, optionGroups: 'size' });
    }
    return header.map((column) => cells[column] || '').join(',');
  });
}

const payment = (name, settles) => ({
  name,
  handler: { code: 'dummy-payment-handler', arguments: [{ name: 'automaticSettle', value: String(settles) }] },
});

const shop = {
  defaultLanguage: 'en',
  defaultZone: 'US',
  countries: [{ code: 'US', name: 'United States', zone: 'US' }],
  taxRates: [{ name: 'Standard', percentage: 20 }],
  shippingMethods: [{ name: 'Parcel', price: 595 }],
  paymentMethods: [payment('Card', true), payment('Invoice', false)],
  collections: [],
};

async function ask(query, variables, token) {
  const response = await fetch(`http://127.0.0.1:${config.apiOptions.port}/${config.apiOptions.adminApiPath}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...(token && { Authorization: `Bearer ${token}` }) },
    body: JSON.stringify({ query, variables }),
  });
  const { data, errors } = await response.json();
  if (errors) throw new Error(JSON.stringify(errors));
  return { data, token: response.headers.get('vendure-auth-token') };
}

// The integration's own user reads orders, customers and the catalogue, and may change nothing.
async function addReader() {
  const { token } = await ask(
    'mutation($name: String!, $password: String!) { login(username: $name, password: $password) { __typename } }',
    { name: config.authOptions.superadminCredentials.identifier, password: config.authOptions.superadminCredentials.password },
  );
  const role = await ask(
    'mutation($input: CreateRoleInput!) { createRole(input: $input) { id } }',
    { input: { code: 'reader', description: 'Reads for the ERP', permissions: ['ReadOrder', 'ReadCustomer', 'ReadCatalog'] } },
    token,
  );
  await ask(
    'mutation($input: CreateAdministratorInput!) { createAdministrator(input: $input) { id } }',
    {
      input: {
        firstName: 'Sync', lastName: 'Daemon', emailAddress: 'syncd@example.com', password: 'reader-Secret-1',
        roleIds: [role.data.createRole.id],
      },
    },
    token,
  );
}

async function main() {
  fs.writeFileSync('products.csv', [header.join(','), ...products.flatMap(lines), ''].join('\n'));
  const app = await populate(() => bootstrap(config), shop, 'products.csv');
  await addReader();
  await app.close();
}

main().then(
  () => process.exit(0),
  (err) => {
    console.error(err);
    process.exit(1);
  },
);
