// The whole configuration of the shop. Ports and the database come from test/real/up.
const { DefaultLogger, LogLevel, dummyPaymentHandler } = require('@vendure/core');

exports.config = {
  apiOptions: {
    hostname: '127.0.0.1',
    port: Number(process.env.SHOP_PORT),
    adminApiPath: 'admin-api',
    shopApiPath: 'shop-api',
    cors: false,
  },
  authOptions: {
    tokenMethod: ['bearer'],
    // Outside of development the shop refuses to start with its well-known default password.
    superadminCredentials: { identifier: 'superadmin', password: 'shop-Secret-1' },
    requireVerification: false,
  },
  dbConnectionOptions: {
    type: 'postgres',
    host: '127.0.0.1',
    port: Number(process.env.PG_PORT),
    username: 'postgres',
    password: '',
    database: process.env.SHOP_DATABASE,
    // The tables are made once, when the template database is filled; copies have it.
    synchronize: process.env.SHOP_MAKES_TABLES === 'yes',
  },
  paymentOptions: { paymentMethodHandlers: [dummyPaymentHandler] },
  plugins: [],
  logger: new DefaultLogger({ level: LogLevel.Warn, timestamp: true }),
};
