// A bank's back end in front of the scheme adapter. Usage: java Backend.java PORT
import com.sun.net.httpserver.HttpServer;
import java.math.BigDecimal;
import java.net.InetSocketAddress;
import java.util.*;
import java.util.regex.Pattern;

class Backend {
    static BigDecimal balance = BigDecimal.ZERO; // of the only customer, 222
    static final Map<String, BigDecimal> CREDITED = new HashMap<>(); // amounts by transferId
    static final Set<String> ABORTED = new HashSet<>(); // transfers that are never credited again

    static String member(String json, String name) { // the first; a real bank has a JSON library
        var found = Pattern.compile("\"" + name + "\":\\s*\"([^\"]*)\"").matcher(json);
        return found.find() ? found.group(1) : "";
    }
    static synchronized String respond(String line, String body) { // the status and the answer
        var transfer = member(body, "transferId");
        switch (line) {
            case "GET /accounts/222": return "200{'balance':'" + balance + "'}"; // of the bank
            case "GET /parties/MSISDN/222": return "200{'idType':'MSISDN','idValue':'222',"
                + "'displayName':'Neema Ali','firstName':'Neema','lastName':'Ali'}";
            case "POST /quoterequests": // the bank charges nothing
                return "200{'quoteId':'%s','transactionId':'%s','transferAmount':'%s'}".formatted(
                    member(body, "quoteId"), member(body, "transactionId"), member(body, "amount"))
                    .replace("}", ",'transferAmountCurrency':'" + member(body, "currency") + "'}");
            case "POST /transfers": // the same transfer may come again, also after its end
                if (ABORTED.contains(transfer)) return "400{'statusCode':'5100','message':'Over'}";
                var amount = new BigDecimal(member(body, "amount"));
                if (CREDITED.putIfAbsent(transfer, amount) == null) balance = balance.add(amount);
                return "200{'homeTransactionId':'credit-" + transfer + "'}";
        }
        if (!line.startsWith("PUT")) return "404{'statusCode':'3204','message':'Not found'}";
        if (member(body, "currentState").equals("ABORTED") && ABORTED.add(transfer))
            balance = balance.subtract(CREDITED.getOrDefault(transfer, BigDecimal.ZERO));
        return "200{}"; // of the final notice: an aborted credit is reversed once
    }
    public static void main(String[] args) throws Exception {
        var port = Integer.parseInt(args[0]);
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", exchange -> {
            var line = exchange.getRequestMethod() + " " + exchange.getRequestURI().getPath();
            var answer = respond(line, new String(exchange.getRequestBody().readAllBytes()));
            var text = answer.substring(3).replace('\'', '"').getBytes();
            exchange.getResponseHeaders().add("content-type", "application/json");
            exchange.sendResponseHeaders(Integer.parseInt(answer.substring(0, 3)), text.length);
            try (var out = exchange.getResponseBody()) { out.write(text); }
        });
        server.start();
        System.out.println("ready on " + server.getAddress().getPort());
    }
}
